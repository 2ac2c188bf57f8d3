"""What bertsmith costs as it grows: time and memory of training, of answers and of corpora.

    python -m benchmarks.scaling                                     # all
    python -m benchmarks.scaling --axis "training, length"
    python -m benchmarks.scaling --axis corpus --most-mb 1000 --text BOOKS WIKI --vocab VOCAB

Each axis varies one thing from MINI on 32 sequences of 128 tokens and leaves the others as they
are; each point has a process of its own, with all threads. A row an axis: seconds (of a model a
median of the rounds; of a corpus one run), the most memory, and the exponent of each, the slope of
a line through the logarithms: 1 where twice as much costs twice as much, 0 where it costs the same.
Memory holds the interpreter, the libraries and the compiler too.

Corpora are built of 1, 10, 100 and 1,000 MB of real text, as far as --most-mb allows, made of up to
10 MB of --text by repeating it with other letters in its rare words (without --text: of the 1.8 MB
that `bertsmith quickstart` learns from). Claimed are constant memory and linear time. It needs
three times the text's size of disk, under --scratch.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import append_row, device_facts, require_device
from benchmarks.processes import apart
from benchmarks.scaling import corpora, models
from benchmarks.scaling.axes import AXES, CORPUS_AXES, MEGABYTES, START, row_of, show
from benchmarks.scaling.renamed import read_texts
from bertsmith.checkpoints.places import find_model
from bertsmith.commands.quickstart import write_interpreter_text
from bertsmith.environment import prepare_environment
from bertsmith.reading.interpreter import interpreter_documents
from bertsmith.train.device import choose_device, choose_precision

CORPUS = "corpus"
_TEXT_BYTES = 10_000_000
_VOCABULARY = "mini-en"


def main() -> None:
    """Measures every axis asked for; prints and appends a row each."""
    options = _options()
    prepare_environment()  # as `bertsmith` sets it
    for axis in options.axis or [*AXES, CORPUS]:
        rows = corpus_rows(options) if axis == CORPUS else [model_row(axis, options)]
        for row in rows:
            print(f"\n{show(row)}", flush=True)
            append_row("scaling", row)


def model_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All points of one axis."""
    axis, device = AXES[name], choose_device(options.device)
    points = [
        apart(
            models.measured,
            models.Question(
                value=value, point=axis.at(value), rounds=options.rounds, device=options.device
            ),
        )
        for value in axis.values[: options.most_points]
    ]
    return {
        **row_of(name, axis.unit, START, points),
        "rounds": options.rounds,
        **device_facts(device),
        "precision": choose_precision("auto", device),
    }


def corpus_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Building and opening, of every size."""
    vocabulary = options.vocab or find_model(_VOCABULARY)
    found = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        paths = options.text
        if not paths:
            paths = [Path(folder) / "python.jsonl"]
            write_interpreter_text(paths[0], list(interpreter_documents()))
        texts = read_texts(paths, _TEXT_BYTES)
        for megabytes in options.mb or MEGABYTES:
            if megabytes <= options.most_mb:
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    found.append(corpora.measured(texts, megabytes, vocabulary, Path(scratch)))
    start = " ".join(path.name for path in options.text) or "the interpreter's text"
    for name, points in zip(
        CORPUS_AXES,
        ([each.building for each in found], [each.opening for each in found]),
        strict=True,
    ):
        yield {
            **row_of(name, "MB of text", start, points),
            "mb_per_second": [point.value / point.seconds for point in points],
            "vocabulary": vocabulary.name,
        }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axis", action="append", choices=[*AXES, CORPUS])
    parser.add_argument("--rounds", type=int, default=5, help="of a model's point")
    parser.add_argument("--most-points", type=int, help="of a model's axis, the smallest")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of models")
    parser.add_argument("--text", type=Path, nargs="+", default=[], help="files or folders")
    parser.add_argument("--vocab", type=Path, help="as build-corpus takes it; default: mini-en's")
    parser.add_argument("--mb", type=float, action="append", help="sizes in place of the four")
    parser.add_argument("--most-mb", type=float, default=1000, help="leaves larger corpora out")
    parser.add_argument("--scratch", type=Path, help="where texts and corpora are written")
    options = parser.parse_args()
    require_device(parser, options.device)
    return options


if __name__ == "__main__":
    main()
