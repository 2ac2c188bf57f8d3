"""Runs that shown `bertsmith finetune` commands leave, made up: tiny models answer at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bertsmith import cli
from bertsmith.commands.finetune_options import Finetune
from bertsmith.commands.finetune_request import directory_for, request_of
from bertsmith.tasks.task import AnyTask
from tests.commands.toy_files import behind, names_toy_files, write_toy_files
from tests.tasks.answering import TASKS, classification, write_answering


def write_toy_runs(commands: Iterable[Sequence[str]], text: str) -> None:
    """Writes those that `text` names, each where its command would leave it."""
    for arguments in commands:
        if not arguments or arguments[0] != "finetune" or not names_toy_files(arguments):
            continue
        write_toy_files(arguments)
        options = cli._parsed(cli.COMMANDS["finetune"], "finetune", list(arguments[1:]))
        assert isinstance(options, Finetune)
        place = options.out or directory_for(request_of(options))
        if f'"{place}"' in text and not place.exists():
            write_answering(Path(place), _task(arguments))


def _task(arguments: Sequence[str]) -> AnyTask:
    if "--tagged" in arguments:
        return TASKS["token_classification"]
    if "--squad" in arguments:
        return TASKS["question_answering"]
    if "--choices" in arguments:
        return TASKS["multiple_choice"]
    return classification(behind(arguments, "--problem", "single_label"))  # type: ignore[arg-type]
