"""Every benchmark that needs no trained model, one after the other.

    python -m benchmarks              # all, pictures too: three or four hours on two cores
    python -m benchmarks --brief      # a few minutes: to see that all runs; rows and pictures are
                                      # written to a temporary folder, none to publish

Text is what `bertsmith quickstart` learns from, made into a vocabulary and a corpus in a temporary
folder. Each benchmark is a program of its own, so that none sees the threads, kernels or memory of
another; its own `--help` says how to run it on real text. One that fails is named at the end, and
the others follow. `tokenization` and `finetuning` read real text, and run where BERTSMITH_DATA
names its folder. `benchmarks.cloze` and `benchmarks.perplexity` ask a trained model,
`benchmarks.finetuning` fine-tunes for hours, `benchmarks.gpu` measures a CUDA GPU,
`benchmarks.gpu_step` shows where a step on one goes, and `benchmarks.gpu_instructions` what kernels
are made of, without one. `benchmarks.before_after` runs pretraining, finetuning or inference by two
commits' code in turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import ROWS_VARIABLE
from bertsmith.commands.quickstart import write_interpreter_text
from bertsmith.reading.interpreter import interpreter_documents

VOCAB_SIZE = 5_000
OF_REAL_TEXT = ("tokenization", "finetuning")
"""What needs BERTSMITH_DATA."""


def main() -> int:
    """Runs all, or those named; status 1 when one failed."""
    options = _options()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        commands = benchmarks(Path(folder), brief=options.brief)
        if not set(OF_REAL_TEXT) & commands.keys():
            print(f"left out, for BERTSMITH_DATA names no folder: {', '.join(OF_REAL_TEXT)}")
        environment = dict(os.environ)
        if options.brief:
            environment[ROWS_VARIABLE] = str(Path(folder, "rows"))
        make_material(Path(folder))
        for name in options.names or list(commands):
            print(f"\n== {name}: python -m {' '.join(commands[name])}", flush=True)
            command = [sys.executable, "-m", *commands[name]]
            if subprocess.run(command, env=environment, check=False).returncode:
                failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def benchmarks(folder: Path, *, brief: bool) -> dict[str, list[str]]:
    """Name -> module and arguments, in the order in which they run."""
    text, vocab, corpus = (str(folder / name) for name in ("text", "vocab", "corpus"))
    data = os.environ.get("BERTSMITH_DATA", "")
    commands = {
        **({"tokenization": ["benchmarks.tokenization"]} if data else {}),
        "vocabulary": ["benchmarks.vocabulary", text, "--vocab-size", str(VOCAB_SIZE)],
        "corpus": ["benchmarks.corpus", "--vocab", vocab, "--plain", text],
        "drawing": ["benchmarks.drawing", "--corpus", corpus],
        "pretraining": ["benchmarks.pretraining"],
        "older_cpu": ["benchmarks.pretraining", "--isa", "AVX2", "--size", "mini"],
        "real_lengths": [
            "benchmarks.pretraining", "--size", "mini", "--length", "512", "--corpus", corpus,
        ],
        "step_parts": ["benchmarks.step_parts"],
        "answer_parts": ["benchmarks.answer_parts"],
        "inference": ["benchmarks.inference"],
        **({"finetuning": ["benchmarks.finetuning.speed", "--data", data]} if data else {}),
        "busy": ["benchmarks.busy"],
        "scaling": ["benchmarks.scaling"],
        "loss_parity": ["benchmarks.loss_parity", "--corpus", corpus],
        "plots": ["benchmarks.plots"],
    }  # fmt: skip
    if brief and data:
        commands["tokenization"] += ["--max-mb", "0.2", "--rounds", "1"]
        commands["finetuning"] += ["--size", "tiny", "--task", "CoLA", "--rounds", "1"]
    if brief:
        commands["vocabulary"] += ["--max-mb", "0.5"]
        commands["corpus"] += ["--rounds", "1"]
        commands["drawing"] += ["--rounds", "3", "--size", "tiny"]
        commands["pretraining"] += ["--size", "tiny", "--rounds", "3"]
        commands["older_cpu"][-1:] = ["tiny", "--rounds", "1", "--system", "bertsmith"]
        commands["real_lengths"] += ["--batch", "2", "--rounds", "1", "--system", "bertsmith"]
        commands["step_parts"] += ["--size", "tiny", "--rounds", "1"]
        commands["answer_parts"] += ["--size", "tiny", "--rounds", "1"]
        commands["busy"] += ["--size", "tiny", "--rounds", "1", "--steps", "2"]
        commands["scaling"] += ["--axis", "training, batch", "--axis", "corpus", "--mb", "1"]
        commands["scaling"] += ["--most-points", "2", "--rounds", "1"]
        commands["inference"] += ["--size", "tiny", "--rounds", "1"]
        commands["loss_parity"] += ["--float32-size", "tiny", "--steps", "20", "--batch", "8"]
        commands["plots"] += ["--out", str(folder)]
    return commands


def make_material(folder: Path) -> None:
    """Writes the interpreter's text, a vocabulary and a corpus of it."""
    write_interpreter_text(folder / "text" / "python.jsonl", list(interpreter_documents()))
    bertsmith = [sys.executable, "-m", "bertsmith"]
    text, vocab, corpus = folder / "text", folder / "vocab", folder / "corpus"
    for arguments in (
        ["learn-vocab", text, "--out", vocab, "--vocab-size", VOCAB_SIZE],
        ["build-corpus", text, "--vocab", vocab, "--out", corpus],
    ):
        subprocess.run([*bertsmith, *map(str, arguments)], check=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    known = benchmarks(Path(), brief=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; or all")
    parser.add_argument("--brief", action="store_true", help="small sizes, few rounds")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
