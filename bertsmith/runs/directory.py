"""A run's directory: what was decided (run.json), which checkpoints it holds, what is left to do.

`run.json` is written once, before the first step, and everything a resumed run needs to know is in
it: the run as resolved, the corpus and its fingerprint, the measured rate, the versions. It does
not know how training works.

RUN/run.json, metrics.jsonl, checkpoints/step-00000500/, README.md, curves.png; vocab/ and corpus/
where the command made them itself, first-vectors.npy and tensorboard/ where the run has them.
"""

from __future__ import annotations

import filecmp
import importlib.metadata
import os
import platform
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertsmith import fusion
from bertsmith.checkpoints import places
from bertsmith.checkpoints.places import WEIGHTS, checkpoints_of, newest_checkpoint
from bertsmith.files import read_json, sha256, write_json
from bertsmith.libraries import carries
from bertsmith.native import bf16_instructions, build
from bertsmith.recipes.run import PretrainRun, from_json, to_json
from bertsmith.runs.functions import are_there
from bertsmith.train.config import Precision, PrecisionChoice
from bertsmith.train.device import Processes, rounds_products
from bertsmith.train.state import FACTS_NAME, TENSORS_NAME

RECORD = places.RECORD
FINE_TUNING = "fine-tuning"
"""The `kind` in the run.json of another sort of run; one of pre-training has none."""
_OF_A_MODEL = ("model", "model_fingerprint", "ancestry")
"""What stands in the run.json of a run that goes on from a model, and in no other."""
_PACKAGES = ("bertsmith", "torch", "numpy", "tokenizers", "safetensors")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What `run.json` holds."""

    run: PretrainRun
    """Every choice, with the vocabulary's size, the model's size and the steps filled in."""
    corpus: Path
    """The corpus directory."""
    corpus_fingerprint: str
    """SHA-256 of the corpus's manifest, which holds the checksums of its files."""
    command: str
    """What was typed, with its launcher where several processes run."""
    request: dict[str, object]
    """What was asked for, before anything was chosen; the same command again continues the run."""
    notes: tuple[str, ...]
    """What was chosen from the text, the minutes and the machine, a sentence each."""
    seconds_per_step: tuple[float, ...]
    """Measured for each phase before the start; never used to decide anything again."""
    peak_bytes: int
    """Memory at the end of the measurement."""
    unigram_entropy: float
    """Nats a token of the training text: the loss of knowing only how frequent each token is."""
    versions: dict[str, str]
    """Python, the packages, and what else of the machine the bits depend on."""
    model: str = ""
    """Where the model lies that it goes on from; empty where weights were drawn."""
    model_fingerprint: str = ""
    """SHA-256 of that model's weights as they were loaded, before any word was added."""
    ancestry: tuple[str, ...] = ()
    """The runs that the model came out of, the newest first."""


def write_record(directory: Path, record: Record) -> None:
    """Writes run.json atomically; the corpus as a relative path where it lies in the directory."""
    content = vars(record)
    write_json(
        directory / RECORD,
        {
            "run": to_json(record.run),
            "corpus": os.path.relpath(record.corpus, directory)
            if record.corpus.resolve().is_relative_to(directory.resolve())
            else str(record.corpus.resolve()),
            "corpus_fingerprint": record.corpus_fingerprint,
            "command": record.command,
            "request": record.request,
            "notes": list(record.notes),
            "seconds_per_step": list(record.seconds_per_step),
            "peak_bytes": record.peak_bytes,
            "unigram_entropy": record.unigram_entropy,
            "versions": record.versions,
            **({name: content[name] for name in _OF_A_MODEL} if record.model else {}),
        },
    )


def read_record(directory: Path) -> Record:
    """Reads run.json. Raises FileNotFoundError where no run is, ValueError for a damaged one."""
    path = directory / RECORD
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} is not the directory of a run: it has no {RECORD}; start one with "
            f"`bertsmith pretrain FOLDER --out {shlex.quote(str(directory))}`"
        )
    content: dict[str, Any] = read_json(path)
    if content.get("kind") == FINE_TUNING:
        raise ValueError(f"{directory} holds a fine-tuning run, expected one of pre-training")
    try:
        return Record(
            run=from_json(content["run"]),
            corpus=directory / content["corpus"],
            corpus_fingerprint=content["corpus_fingerprint"],
            command=content["command"],
            request=content["request"],
            notes=tuple(content["notes"]),
            seconds_per_step=tuple(content["seconds_per_step"]),
            peak_bytes=content["peak_bytes"],
            unigram_entropy=content["unigram_entropy"],
            versions=content["versions"],
            model=content.get("model", ""),
            model_fingerprint=content.get("model_fingerprint", ""),
            ancestry=tuple(content.get("ancestry", ())),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} was not written by this version of bertsmith ({error}); start the run again "
            f"in another directory"
        ) from error


def is_pretraining(directory: Path) -> bool:
    """True where the directory is that of a pre-training run."""
    path = directory / RECORD
    return path.is_file() and read_json(path).get("kind") != FINE_TUNING


def fingerprint(corpus: Path) -> str:
    """SHA-256 of the corpus's manifest."""
    return sha256(corpus / "manifest.json")


def check_corpus(record: Record) -> None:
    """Raises ValueError when the corpus is not the one the run began with."""
    found = fingerprint(record.corpus)
    if found != record.corpus_fingerprint:
        raise ValueError(
            f"the corpus {record.corpus} has changed since the run began: fingerprint "
            f"{found[:12]}, expected {record.corpus_fingerprint[:12]}; build it again from the "
            f"same text and vocabulary, or start a new run"
        )


def require_same(directory: Path, record: Record, asked: dict[str, object]) -> None:
    """Raises ValueError when the directory holds another run than `asked`."""
    if record.request != asked:
        raise ValueError(
            f"{directory} holds another run (`{record.command}`); choose another directory with "
            f"--out, or continue it with `bertsmith pretrain --resume "
            f"{shlex.quote(str(directory))}`"
        )


def versions(device: torch.device, processes: Processes, precision: Precision) -> dict[str, str]:
    """What bits depend on beside the run and the corpus."""
    is_cuda, is_cpu = device.type == "cuda", device.type == "cpu"
    caps = (os.environ.get(name) for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"))
    found = {package: importlib.metadata.version(package) for package in _PACKAGES}
    has_functions, in_float16 = are_there(precision, device), rounds_products(precision, device)
    return {
        "python": platform.python_version(),
        **found,
        "machine": platform.machine(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "instruction_set_cap": next(filter(None, caps), "none"),
        "threads": str(torch.get_num_threads()),
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if is_cuda else "none",
        "processes": str(processes.world_size),
        "fused_kernels": "yes" if fusion.is_fusing(device.type) else "no",
        "cpu_functions": "yes" if has_functions else "no",
        "cpu_build": _cpu_build() if has_functions else "none",
        "bf16_instructions": bf16_instructions() if is_cpu else "none",
        **({"fp16_products": "yes"} if has_functions and in_float16 else {}),
    }


def _cpu_build() -> str:
    """For which instructions the functions are built, and by whom."""
    return f"{build().name} {'of the wheel' if carries(build()) else 'built here'}"


def changed_versions(
    began: Mapping[str, str], now: Mapping[str, str], precision: PrecisionChoice
) -> list[str]:
    """What differs from the versions the run began with, in that precision.

    Bits are promised only without it.
    """
    # Older runs told of products of float16 whether they made any or not.
    is_of_float16 = precision == "fp16"
    began = {name: it for name, it in began.items() if is_of_float16 or name != "fp16_products"}
    # And had no functions in C++, and did not say so.
    began = {"cpu_functions": "no", **began} if "cpu_functions" in now else began
    return [
        f"{name} {before} -> {now.get(name, 'none')}"
        for name, before in began.items()
        if before != now.get(name, "none")
    ]


def checkpoint_path(directory: Path, step: int) -> Path:
    """Where the checkpoint after `step` updates lies."""
    return directory / "checkpoints" / f"step-{step:08d}"


def reached(directory: Path) -> int:
    """Updates in the newest complete checkpoint; 0 without one."""
    newest = newest_checkpoint(directory)
    return 0 if newest is None else int(newest.name.removeprefix("step-"))


def holds_model(place: Path, checkpoint: Path) -> bool:
    """Whether the weights at `place` are those of the checkpoint."""
    there = place / WEIGHTS
    return there.is_file() and filecmp.cmp(checkpoint / WEIGHTS, there, shallow=False)


def copy_model(checkpoint: Path, directory: Path) -> None:
    """Copies a checkpoint without the trainer's state, file by file, into an existing directory."""
    for file in checkpoint.iterdir():
        if file.name not in (TENSORS_NAME, FACTS_NAME):
            shutil.copyfile(file, directory / file.name)


def drop_old_checkpoints(directory: Path, keep: int, keep_every: int = 0) -> None:
    """Deletes all but the newest `keep` checkpoints; what somebody laid beside them stays.

    Those of every `keep_every` steps stay too, with 0 none.
    """
    for old in checkpoints_of(directory)[:-keep]:
        if not keep_every or int(old.name.removeprefix("step-")) % keep_every:
            shutil.rmtree(old)
