"""A pre-training run that takes seconds: a few dozen made-up documents and a toy model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from bertsmith.randomness import integers

SUBJECTS = ("the cat", "a small dog", "my friend", "the old teacher", "a green bird", "our boat")
VERBS = ("sees", "follows", "likes", "forgets", "paints", "carries")
OBJECTS = ("the river", "a red house", "the morning", "two apples", "a long song", "the window")

NUM_PHASES = 4
TOY_RUN = (
    "--phases", *NUM_PHASES * ("6x32x8",),
    "--warmup-steps", "4", "--evaluate-every", "8", "--evaluate-sequences", "24",
    "--save-every", "1", "--keep-checkpoints", "2", "--log-every", "4",
    "--model.hidden-size", "32", "--model.num-hidden-layers", "2",
    "--model.num-attention-heads", "2", "--model.intermediate-size", "64",
    "--workers", "1", "--threads", "1",
    "--recipe", "mini-cpu", "--precision", "fp32", "--dropout",
)  # fmt: skip
"""The options of a run; text besides takes those of TOY."""
TOY = (*TOY_RUN, "--vocab-size", "300", "--held-out", "0.2")

FURTHER = (
    "--phases", "6x32x8", "--warmup-steps", "2", "--evaluate-every", "3",
    "--evaluate-sequences", "24", "--save-every", "2", "--log-every", "3", "--held-out", "0.2",
    "--workers", "1", "--threads", "1", "--precision", "fp32",
)  # fmt: skip
"""The options of a run that goes on from a model."""

_KILLED_BY_ITSELF = """
import os, signal, sys
from bertsmith.cli import main
from bertsmith.fusion import unfused
from bertsmith.train.log import MetricsLog

write, last = MetricsLog.write, int(sys.argv[1])

def write_and_die(log, record):
    write(log, record)
    if "loss" in record and record["step"] == last:
        os.kill(os.getpid(), signal.SIGKILL)

MetricsLog.write = write_and_die
with unfused():
    main(sys.argv[2:])
"""


def killed_at(step: int, *arguments: object, **changes: str) -> None:
    """Runs `bertsmith` until it kills itself, having written the metrics of `step`.

    Its functions are those of a test in this process: in C++, and none that torch compiles.
    """
    process = subprocess.run(
        [sys.executable, "-c", _KILLED_BY_ITSELF, str(step), *map(str, arguments)],
        env=environment(**{"BERTSMITH_FUSION": "1", **changes}),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL


def write_text(folder: Path, num_documents: int = 40) -> Path:
    """Writes documents of six sentences in the original's format: a sentence a line."""
    documents = []
    for document in range(num_documents):
        draws = integers(6, 7, document, np.arange(18)).reshape(6, 3).tolist()
        documents.append("\n".join(f"{SUBJECTS[s]} {VERBS[v]} {OBJECTS[o]} ." for s, v, o in draws))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return folder


def command(*arguments: object) -> list[str]:
    """The command line of `bertsmith pretrain` in a process of its own."""
    return [sys.executable, "-m", "bertsmith", "pretrain", *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    """An environment in which a run starts fast and is the same every time."""
    return {**os.environ, "BERTSMITH_FUSION": "0", "OMP_NUM_THREADS": "1", **changes}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `bertsmith pretrain` to its end in a process of its own."""
    return subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, check=False
    )
