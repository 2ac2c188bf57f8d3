"""What an extraction read, left out and wrote -> the lines that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.features.vectors import Layout, TextVectors
from bertsmith.reading.counted import counted
from bertsmith.runs.progress import duration

_FAULTS_SHOWN = 100


@dataclass(kw_only=True)
class Report:
    """What was read and written, counted as it comes."""

    texts: int = 0
    """Texts of the input, and of the output."""
    empty: int = 0
    """Texts without a token."""
    tokens: int = 0
    """Tokens that were read, special ones not counted."""
    unread_texts: int = 0
    """Texts that were cut."""
    unread_tokens: int = 0
    """Tokens that were not read."""
    windowed_texts: int = 0
    """Texts that were read in several windows."""
    windows: int = 0
    """Windows of these."""
    vectors: int = 0
    """Vectors written."""
    malformed: int = 0
    """Rows that were left out."""
    faults: list[str] = field(default_factory=list)
    """Where the first of them stand, and what is wrong with each."""

    def add(self, texts: Sequence[TextVectors]) -> None:
        """Counts some texts."""
        for text in texts:
            self.texts += 1
            self.empty += text.num_tokens == 0
            self.tokens += text.num_tokens
            self.unread_texts += text.num_unread > 0
            self.unread_tokens += text.num_unread
            self.windowed_texts += text.num_windows > 1
            self.windows += text.num_windows if text.num_windows > 1 else 0
            self.vectors += len(text.vectors)

    def leave_out(self, fault: str) -> None:
        """Counts a malformed row."""
        self.malformed += 1
        if len(self.faults) < _FAULTS_SHOWN:
            self.faults.append(fault)


def lines(report: Report, out: Path, layout: Layout, seconds: float) -> Iterator[str]:
    """For a person: the file first, then what was cut, parted, empty or left out."""
    rate = report.tokens / max(seconds, 1e-9)
    texts, is_one = counted(report.texts, "text"), report.texts == 1
    yield (
        f"{out}: {counted(report.vectors, 'vector')} of {layout.width:,} {layout.dtype} numbers, "
        f"of {texts} with {counted(report.tokens, 'token')} "
        f"({out.stat().st_size / 1e6:,.1f} MB; {duration(seconds)}, {rate:,.0f} tokens/s)"
    )
    longer = (
        f"of {texts} {'was' if is_one else 'were'} longer than the "
        f"{layout.metadata['max_tokens']} tokens that are read at once"
    )
    if report.unread_texts:
        yield (
            f"{report.unread_texts:,} {longer}: {report.unread_tokens:,} tokens at their ends were "
            f"not read (--long-texts window reads all)"
        )
    if report.windowed_texts:
        yield (
            f"{report.windowed_texts:,} {longer}: read in {report.windows:,} windows, a new one "
            f"every {layout.metadata['stride_tokens']} tokens; each token's vector is from the "
            f"window where it sees most around it"
        )
    if report.empty:
        yield f"{report.empty:,} of {texts} hold{'s' * is_one} no token; their rows are kept"
    if report.malformed:
        yield f"{counted(report.malformed, 'malformed row')} left out:"
        yield from (f"  {fault}" for fault in report.faults)
    if more := report.malformed - len(report.faults):
        yield f"  and {more:,} more; ids in .parquet (without --id-field) number the file's rows"
