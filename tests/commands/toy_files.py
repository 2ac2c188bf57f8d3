"""The files that a shown `bertsmith finetune` names, made up: in the format and columns it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.commands import small_files
from tests.commands.small_files import PLACES, WORDS, drawn

NUM_EXAMPLES = 12
OPTIONS = ("--texts", "--tagged", "--squad", "--choices")


_TABLES = {
    "--squad": (
        small_files.asked_rows,
        {
            "--question-column": "question",
            "--passage-column": "context",
            "--answers-column": "answer",
            "--start-column": "answer_start",
        },
    ),
    "--tagged": (
        small_files.word_rows,
        {"--sentence-column": "sentence_id", "--word-column": "word", "--tag-column": "tag"},
    ),
}
"""What writes a table of each kind, and its columns by the options that name them."""


def names_toy_files(arguments: Sequence[str]) -> bool:
    """Whether the examples can be made up: files in the current directory."""
    kind = next((option for option in OPTIONS if option in arguments), None)
    return kind is not None and len(Path(behind(arguments, kind, "")).parts) == 1


def write_toy_files(arguments: Sequence[str]) -> None:
    """Writes them, those to evaluate on too."""
    kind = next(option for option in OPTIONS if option in arguments)
    for key, option in enumerate((kind, "--dev"), 1):
        if name := behind(arguments, option, ""):
            _write(kind, Path(name), key, arguments)


def behind(arguments: Sequence[str], option: str, default: str) -> str:
    return all_behind(arguments, option, (default,))[0]


def all_behind(arguments: Sequence[str], option: str, default: tuple[str, ...]) -> tuple[str, ...]:
    if option not in arguments:
        return default
    words = arguments[list(arguments).index(option) + 1 :]
    end = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    return tuple(words[:end])


def _write(kind: str, path: Path, key: int, arguments: Sequence[str]) -> None:
    if path.suffix == ".csv" and kind in _TABLES:
        write, columns = _TABLES[kind]
        _, *lines = write(path, NUM_EXAMPLES, key).read_text(encoding="utf-8").splitlines()
        header = ",".join(behind(arguments, option, name) for option, name in columns.items())
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    elif kind == "--squad":
        small_files.squad(path, NUM_EXAMPLES, key)
    elif kind == "--tagged":
        small_files.tagged(path, NUM_EXAMPLES, key)
    elif kind == "--choices" and "--choice-columns" not in arguments:
        small_files.choices(path, NUM_EXAMPLES, key)
    else:
        _write_rows(path, [_row(kind, each, arguments) for each in drawn(NUM_EXAMPLES, key)])


def _row(kind: str, draws: Sequence[int], arguments: Sequence[str]) -> dict[str, str]:
    first, second, third, place = draws
    texts = all_behind(arguments, "--text-columns", ("text",))
    row = {name: f"{WORDS[first + at]} {PLACES[place]}" for at, name in enumerate(texts)}
    choices = all_behind(arguments, "--choice-columns", ())
    row |= {name: WORDS[3 + at] for at, name in enumerate(choices)}
    label = str(second % max(2, len(choices)))
    if behind(arguments, "--problem", "") == "multi_label":
        label += f"{behind(arguments, '--separator', ',')}{3 + third}"
    return {**row, behind(arguments, "--label-column", "label"): label}


def _write_rows(path: Path, rows: Sequence[dict[str, str]]) -> None:
    if path.suffix == ".jsonl":
        lines = [json.dumps(row) for row in rows]
    else:
        between = {".csv": ",", ".tsv": "\t"}[path.suffix]
        lines = [between.join(rows[0]), *(between.join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
