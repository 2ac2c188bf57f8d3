"""`bertsmith extract`: a file of texts -> the hidden states of any BERT, as vectors on disk.

    bertsmith extract texts.txt --model mini-en --out vectors.parquet
    bertsmith extract pairs.csv --text-field question --model mini-en --out q.npz --per text
    bertsmith extract news.jsonl --model mini-ko --out news.safetensors --layers concat-last-four

The input streams through the model, in its order and in bounded memory. A text that is longer than
the model reads is cut, or read in windows, as asked, and counted in either case.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from bertsmith.commands.extract_options import Extract
from bertsmith.commands.extract_report import Report, lines
from bertsmith.commands.stages import Stage
from bertsmith.features.plan import FeaturePlan
from bertsmith.features.vectors import Layout, Text, TextVectors
from bertsmith.features.writers import check_format, open_writer
from bertsmith.reading.counted import counted
from bertsmith.reading.faults import refuse
from bertsmith.reading.tables import Row, columns, require_column, rows
from bertsmith.runs.progress import say

if TYPE_CHECKING:
    from bertsmith.features.extraction import Reading
    from bertsmith.inference import Predictor
    from bertsmith.model.sentence import SentenceConfig

_ROWS_A_SHOW = 1 << 16
_ADVICE = "mend the row, or leave such rows out with --skip-malformed"


def extract(run: Extract, console: Console | None = None) -> Report:
    """Extracts, shows how far it is, and reports what was read, cut and written.

    Raises ValueError or FileNotFoundError before the model is loaded for an output that exists or
    has no known format, for an input without rows or without the column, and with file and line for
    a row that cannot be read.
    """
    console = console or Console()
    _check_out(run)
    _check_rows(run, console)
    report = Report()
    texts = _texts(run, report)
    predictor = _loaded(run, console)
    layout = _layout(run, predictor)
    start = time.perf_counter()
    with (
        open_writer(run.out, layout) as writer,
        Stage(console, "extract", "bytes", run.file.stat().st_size) as stage,
    ):
        for chunk in _vectors(texts, predictor, run.plan, _shown(stage, report)):
            writer.write(chunk)
            report.add(chunk)
    for line in lines(report, run.out, layout, time.perf_counter() - start):
        say(console, line)
    for note in predictor.tally.notes("that were read"):
        say(console, f"note: {note}")
    return report


def _check_out(run: Extract) -> None:
    check_format(run.out, run.plan, has_ids=run.id_field is not None)
    if run.out.resolve() == run.file.resolve():
        raise ValueError(f"{run.out} is the input: name another file to write")
    if run.out.is_dir():
        raise ValueError(f"{run.out} is a directory: name a file")
    if run.out.exists() and not run.force:
        raise ValueError(f"{run.out} exists: name another file, or replace it with --force")
    above = next(parent for parent in run.out.resolve().parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{above} is no directory: {run.out} cannot be written in it")


def _check_rows(run: Extract, console: Console) -> None:
    """Reads the whole input, which is quick: its last row must not end hours of work."""
    texts = _texts(run, Report())
    with Stage(console, "check", "bytes", run.file.stat().st_size) as stage:
        for number, text in enumerate(texts, start=1):
            if number % _ROWS_A_SHOW == 0:
                stage.reach(text.bytes_read, f"{number:,} rows")


def _texts(run: Extract, report: Report) -> Iterator[Text]:
    """The file's texts; opened, and its columns checked, at once."""
    asked = {"--text-field": run.text_field, "--id-field": run.id_field}
    named = {option: name for option, name in asked.items() if name is not None}
    known = columns(run.file, has_header=run.header)
    for option, name in named.items():
        require_column(run.file, name, known, f"name the right one with {option}")
    on_malformed = report.leave_out if run.skip_malformed else partial(refuse, advice=_ADVICE)
    found = rows(run.file, [*named.values()], has_header=run.header, on_malformed=on_malformed)
    return _named(found, run.text_field, run.id_field)


def _named(found: Iterator[Row], text_field: str, id_field: str | None) -> Iterator[Text]:
    for row in found:
        yield Text(
            id=str(row.number) if id_field is None else _id(row, id_field),
            text=row.text(text_field),
            bytes_read=row.bytes_read,
        )


def _id(row: Row, id_field: str) -> str:
    value = row.values[id_field]
    if value is None:
        raise ValueError(
            f"{row.place}: column {id_field!r} names no text, found null; give every row an id, or "
            f"leave --id-field out to number the texts from 0"
        )
    return str(value)


def _loaded(run: Extract, console: Console) -> Predictor:
    # Torch takes seconds to import: only now, when the input is known to be sound.
    from bertsmith.inference import Predictor
    from bertsmith.train.device import choose_device

    device = choose_device(run.device)
    predictor = Predictor.load(run.model, device=device, precision=run.precision)
    for note in predictor.notes:
        say(console, f"note: {note}")
    followed = run.plan.followed(predictor.limit, predictor.sentence)
    if predictor.is_sentence_model and followed:
        say(console, followed)
    return predictor


def _vectors(
    texts: Iterable[Text],
    predictor: Predictor,
    plan: FeaturePlan,
    show: Callable[[Sequence[Reading], float], None],
) -> Iterator[list[TextVectors]]:
    """`show` is told how much of which texts is computed."""
    from bertsmith.features.extraction import readings_of, vectors_of

    for chunk in readings_of(texts, predictor, plan):
        predictor.watch = partial(show, chunk)
        predictor.tally.look_at(reading.text.text for reading in chunk)
        yield vectors_of(chunk, predictor, plan)


def _shown(stage: Stage, report: Report) -> Callable[[Sequence[Reading], float], None]:
    start = time.perf_counter()
    bytes_read = 0

    def show(chunk: Sequence[Reading], share: float) -> None:
        nonlocal bytes_read
        chunk_end = chunk[-1].text.bytes_read
        texts = report.texts + int(share * len(chunk))
        tokens = report.tokens + int(share * sum(reading.num_read for reading in chunk))
        rate = tokens / (time.perf_counter() - start)
        stage.reach(
            bytes_read + int(share * (chunk_end - bytes_read)),
            f"{counted(texts, 'text')}, {counted(tokens, 'token')}, {rate:,.0f} tokens/s",
        )
        bytes_read = chunk_end if share == 1 else bytes_read

    return show


def _layout(run: Extract, predictor: Predictor) -> Layout:
    """Raises ValueError for a plan that does not fit the model."""
    plan, config, own = run.plan, predictor.model.config, predictor.sentence
    numbers = plan.choice.numbers(config.num_hidden_layers)
    limit = plan.limit(predictor.limit, own)
    step = plan.step(limit)
    metadata = {
        "made_by": f"bertsmith {importlib.metadata.version('bertsmith')} extract",
        "model": predictor.name,
        "vocabulary": predictor.tokenizer.fingerprint,
        "input": str(run.file),
        **{name: str(value) for name, value in asdict(plan).items()},
        "layers": plan.layers,
        "layer_numbers": ",".join(map(str, numbers)),
        "weights": ",".join(map(str, plan.weights)),
        **_pooling(plan, own),
        "computed_in": predictor.computed_in,
        "hidden_size": str(config.hidden_size),
        "max_tokens": str(limit),
        "stride_tokens": "none" if step is None else str(step),
    }
    width = plan.width(config.num_hidden_layers, config.hidden_size, own)
    return Layout(per=plan.per, width=width, dtype=plan.dtype, metadata=metadata)


def _pooling(plan: FeaturePlan, own: SentenceConfig) -> dict[str, str]:
    """How vectors are pooled, for whoever finds the file."""
    if plan.per == "text":
        sentence = plan.sentence(own)
        pooling, is_normalized = ",".join(sentence.pooling), sentence.is_normalized
        dense = str(sentence.dense or "none")
    else:
        pooling, is_normalized = plan.word_pooling if plan.per == "word" else "none", False
        dense = "none"
    return {"pooling": pooling, "dense": dense, "is_normalized": str(is_normalized)}
