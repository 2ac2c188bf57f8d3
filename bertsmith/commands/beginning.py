"""A request, or a run that is there -> a directory that is ready to be trained, and words about it.

The first half of `pretrain`: what is decided is in `decision.py`, here it is written down. It does
not train.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from rich.console import Console

from bertsmith.commands.decision import decide
from bertsmith.commands.preparation import is_of_other_text
from bertsmith.commands.request import Request
from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.corpus.store import Corpus
from bertsmith.runs.directory import (
    Record,
    changed_versions,
    reached,
    read_record,
    require_same,
    versions,
    write_record,
)
from bertsmith.runs.first_vectors import write_first_vectors
from bertsmith.runs.progress import say
from bertsmith.runs.room import pretraining_bytes, require_room
from bertsmith.runs.together import command_line
from bertsmith.train.device import Processes, recorded_precision


def begin(
    request: Request,
    directory: Path,
    device: torch.device,
    processes: Processes,
    console: Console,
    plan_only: bool,
) -> Record:
    """Makes everything that a new run needs and writes run.json last, unless it is a plan only.

    Ctrl-C says what is kept and how to go on, and raises KeyboardInterrupt.
    """
    try:
        record = decide(request, directory, device, processes, console)
        if not plan_only:
            require_room(pretraining_bytes(record.run), directory, "the run's checkpoints")
            _write_first_vectors(directory, record, console)
            write_record(directory, record)
    except KeyboardInterrupt:
        say(console, f"stopped before the first step; {_kept(directory)}; to go on:")
        say(console, command_line(sys.argv[1:], processes))
        raise
    return record


def _kept(directory: Path) -> str:
    """What of the preparation is found again the next time."""
    corpus = directory / "corpus"
    kept = ["the vocabulary"] if (directory / "vocab" / "vocab.txt").is_file() else []
    if (corpus / MANIFEST).is_file():
        kept.append("the corpus")
    elif corpus.is_dir():
        kept.append("the corpus as far as it is built")
    return f"kept in {directory}: {' and '.join(kept)}" if kept else "nothing had been made yet"


def take_up(
    directory: Path,
    request: Request | None,
    device: torch.device,
    processes: Processes,
    console: Console,
) -> Record:
    """Says where the run in the directory goes on, and on what other machine.

    Raises ValueError where it is another run than is asked for, FileNotFoundError without corpus.
    """
    record = read_record(directory)
    if request is not None:
        require_same(directory, record, request.asked)
    _require_corpus(record)
    is_stale = request is not None and is_of_other_text(record.corpus, request.texts, request.text)
    done, total = reached(directory), record.run.num_steps
    if done == total:
        lines = [f"{directory} holds this run, finished after {total:,} steps"]
    else:
        lines = [f"{directory} holds this run: going on after step {done:,} of {total:,}"]
        precision = recorded_precision(record.run.precision, device)
        now = versions(device, processes, precision)
        for change in changed_versions(record.versions, now, record.run.precision):
            lines.append(f"warning: {change} since it began: the bits are no longer promised")
    if is_stale:
        lines.append(
            "warning: the text has changed since then and the run keeps the one it began with; for "
            "a model of the text as it is now, name another directory with --out"
        )
    for line in lines:
        say(console, line)
    return record


def _require_corpus(record: Record) -> None:
    if (record.corpus / MANIFEST).is_file():
        return
    told = f"{record.corpus}, the corpus that this run trains on, is not there any more"
    if record.request.get("texts") == [str(record.corpus.resolve())]:  # a corpus was named, no text
        raise FileNotFoundError(f"{told}: put it back, or build it again as it was")
    raise FileNotFoundError(
        f"{told}: put it back; or, while the text is what it was, give the command again "
        f"(`{record.command}`) with another --out and --plan-only, which makes the same corpus "
        f"there, and move that to {record.corpus}"
    )


def _write_first_vectors(directory: Path, record: Record, console: Console) -> None:
    if record.run.count_embeddings:
        say(console, "counting what stands beside every token ...")
        write_first_vectors(directory, record.run, Corpus.open(record.corpus))
