"""A file of labelled texts, or of pairs -> examples to classify or to rate.

CSV, TSV, JSONL or Parquet, the columns by name. One label a row, several (a list, in CSV and TSV
one field with a separator), or a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.reading.counted import counted
from bertsmith.reading.hub_features import class_names
from bertsmith.reading.tables import Row, table_format
from bertsmith.tasks.classify import LabelScheme, Problem, TextExample, balance
from bertsmith.tasks.own.files import FileOptions, OwnFile, read_rows, require_text
from bertsmith.tasks.own.labels import Spelling, require_known
from bertsmith.tasks.own.split import content_of
from bertsmith.tasks.own.summary import Summary, lengths_of, num_repeated, summarised

_NUMBER = LabelScheme(("score",), "regression")
_MANY_LABELS = 20
_FEW_EXAMPLES = 4
"""Fewer of them a label, of many labels, are told: it is hardly the column of labels."""


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """Where texts and labels stand in a row."""

    texts: tuple[str, ...] = ("text",)
    """One column, or two for pairs."""
    label: str | None = "label"
    """None for texts to predict on."""
    problem: Problem = "single_label"
    """One label of several, any number of labels, or a number."""
    separator: str = ","
    """Between the labels of one field, in CSV and TSV."""
    key: str = ""
    """A column of ids that must be unique; empty for none."""

    def __post_init__(self) -> None:
        """Refuses what is neither a text nor a pair."""
        if not 1 <= len(self.texts) <= 2 or len(set(self.texts)) != len(self.texts):
            raise ValueError(
                f"texts are one column, or two different ones for pairs; found {self.texts}"
            )
        if not self.separator:
            raise ValueError("separator must be at least one character")


def read(
    path: Path, columns: TextColumns, options: FileOptions | None = None
) -> OwnFile[TextExample]:
    """The examples of a file; rows with an empty text are left out and told.

    Raises as `read_rows` does: a missing column, a label that is none, and in regression one that
    is no number, are refused with file and line.
    """
    format = table_format(path)
    is_named = format == "parquet" and columns.label and columns.problem != "regression"
    spelling = Spelling(class_names(path, columns.label or "") if is_named else ())
    separator = columns.separator if format in ("csv", "tsv") else None

    def example(row: Row) -> TextExample:
        texts = tuple(require_text(row.text(name), row.place, name) for name in columns.texts)
        labels = _labels(row, columns, spelling, separator)
        found = TextExample(texts=texts, labels=labels, place=row.place)
        if columns.problem == "regression" and labels is not None:
            _NUMBER.target(found)
        return found

    names = [*columns.texts, *([columns.label] if columns.label else [])]
    file = read_rows(path, names, example, options or FileOptions(), columns.key)
    return replace(file, notes=(*file.notes, *spelling.notes()))


def require_learned(examples: Sequence[TextExample], scheme: LabelScheme) -> None:
    """Raises ValueError, with the place, for labels that are none of the scheme's."""
    if scheme.problem != "regression":
        require_known(
            ((label, example.place) for example in examples for label in example.labels or ()),
            scheme.names,
        )


def contents(examples: Sequence[TextExample]) -> list[str]:
    """What keeps duplicates on one side of a split: the texts, the same however they are labelled.

    A pair is the same either way round.
    """
    return [content_of(*sorted(example.texts)) for example in examples]


def summary(file: OwnFile[TextExample], scheme: LabelScheme | None) -> Summary:
    """What was read; without a scheme nothing is said of labels.

    Raises ValueError, with the place, for labels that are none of the scheme's.
    """
    if scheme:
        require_learned(file.examples, scheme)
    sides = zip(*(example.texts for example in file.examples), strict=True)
    which = (
        ("",) if len(file.examples[0].texts) == 1 else (" of the first text", " of the second text")
    )
    return summarised(
        file,
        balance=balance(file.examples, scheme) if scheme else "",
        lengths=[
            lengths_of(f"characters{name}", map(len, texts))
            for name, texts in zip(which, sides, strict=True)
        ],
        notes=[*_repetitions(file.examples), *_rarities(file.examples, scheme)],
    )


def _labels(
    row: Row, columns: TextColumns, spelling: Spelling, separator: str | None
) -> tuple[str, ...] | None:
    if columns.label is None:
        return None
    value = row.values[columns.label]
    if columns.problem == "multi_label":
        return spelling.labels(value, row.place, separator)
    if isinstance(value, list):
        raise ValueError(
            f"{row.place}: a list of labels where one is expected: if a text may have several, "
            f"take --problem multi_label"
        )
    return (spelling.label(value, row.place),)


def _repetitions(examples: Sequence[TextExample]) -> Iterator[str]:
    listed = contents(examples)
    repeated = num_repeated(listed)
    if repeated:
        distinct = len(set(zip(listed, (example.labels for example in examples), strict=True)))
        differing = distinct - (len(listed) - repeated)
        told = counted(repeated, "text occurs", "texts occur")
        yield f"{told} before, {differing:,} with another label there"


def _rarities(examples: Sequence[TextExample], scheme: LabelScheme | None) -> Iterator[str]:
    if scheme is None or scheme.problem == "regression" or len(scheme.names) < _MANY_LABELS:
        return
    if len(scheme.names) * _FEW_EXAMPLES > len(examples):
        yield (
            f"{len(scheme.names):,} labels for {len(examples):,} examples: is this the column of "
            f"labels? Numbers on a scale are learned by regression"
        )
