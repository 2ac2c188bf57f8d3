"""A part of an experiment -> its directory, by a fingerprint of all that decides its numbers.

SITE/text/, pretrained/, joined/, fine-tuned/: what two tables need is made once and found again,
after a stop, by another process, or when a table is asked for months later. It makes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.files import sha256
from bertsmith.recipes import finetuning, run
from bertsmith.recipes.experiments.exams import EXAMS, Exam
from bertsmith.recipes.experiments.experiment import (
    Joined,
    Model,
    Perplexity,
    Pretrained,
    Score,
    Tuned,
)
from bertsmith.tasks import glue

_DIGITS = 12
_UNDECISIVE = (
    "name", "accumulation", "evaluate_every", "evaluate_sequences", "save_every",
    "keep_checkpoints", "log_every", "record_every", "loader_workers",
)  # fmt: skip
"""Fields of a run that change no weight that is read."""
_SUFFIXES = ("", ".gz")


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where everything of some experiments lies."""

    directory: Path
    data: Path
    """The folder of labelled sets."""
    corpora: Mapping[bool, str]
    """Fingerprints of the corpora, by whether they are cased."""
    _hashes: dict[Path, str] = field(default_factory=dict)

    def of_model(self, model: Model) -> Path:
        """The directory of a run, of a joined model or of a search; one checkpoint lies in it."""
        if isinstance(model, Pretrained):
            said = {"run": _deciding(run.to_json(model.run)), "corpus": self.corpora[model.cased]}
            return self.directory / "pretrained" / f"{model.run.name}-{_digest(said)}"
        if isinstance(model, Joined):
            sides = [self.of_model(side) for side in (model.left_to_right, model.right_to_left)]
            names = [side.name for side in sides]
            return self.directory / "joined" / f"{model.left_to_right.run.name}-{_digest(names)}"
        return self._tuned(model, model.model, {"kept_head": False})

    def place_of_claim(self, key: str) -> Path:
        """A directory that the process holds which makes this part."""
        return self.directory / ".claims" / _digest(key)

    def of_score(self, score: Score) -> Path:
        """The directory of the search that all its restarts lie in."""
        said = {
            "grid": None if score.grid is None else vars(score.grid),
            "most_examples": score.most_examples,
        }
        return self._tuned(score, score.model, said)

    def _tuned(self, asked: Score | Tuned, model: Model, more: Mapping[str, object]) -> Path:
        begun: dict[str, object] = {"model": self.of_model(model).name}
        if isinstance(model, Pretrained):
            begun["step"] = model.step
        said = {
            **begun,
            "run": _deciding(finetuning.to_json(asked.run)),
            "max_tokens": asked.max_tokens,
            "options": asked.options,
            "examples": self._hash_of(EXAMS[asked.exam]),
            **more,
        }
        name = asked.exam.replace(" ", "-")
        return self.directory / "fine-tuned" / f"{name}-{asked.run.name}-{_digest(said)}"

    def _hash_of(self, exam: Exam) -> str:
        """Of the bytes of its files."""
        digest = hashlib.sha256()
        for path in files_of(exam, self.data):
            if path not in self._hashes:
                self._hashes[path] = sha256(path)
            digest.update(self._hashes[path].encode())
        return digest.hexdigest()


def key_of(part: Model | Score | Perplexity, site: Site) -> str:
    """Equal for parts that share everything."""
    if isinstance(part, Score):
        return str(site.of_score(part))
    if isinstance(part, Perplexity):
        return str(site.of_model(part.model))
    step = part.step if isinstance(part, Pretrained) else None
    return f"{site.of_model(part)}@{step}"


def source_of(exam: Exam, data: Path, options: Mapping[str, object]) -> dict[str, object]:
    """The exam's examples, as options of a command would name them.

    Raises FileNotFoundError, saying what was looked for, where they are not in the folder.
    """
    files_of(exam, data)
    named: dict[str, object] = dict(exam.files)
    for option in exam.paths:
        named[option] = str(_there(data / exam.files[option]).resolve())
    return {**named, **options}


def files_of(exam: Exam, data: Path) -> list[Path]:
    """The files that are read. Raises FileNotFoundError for one that is not there."""
    if "task" in exam.files:
        directory, task = data / exam.files["glue"], glue.task_named(exam.files["task"])
        learned = glue.task_named("MNLI-m") if exam.name == "MNLI-mm" else task
        return [glue.file_of(directory, learned, "train"), glue.file_of(directory, task, "dev")]
    return [_there(data / exam.files[option]) for option in exam.paths]


def _there(path: Path) -> Path:
    for suffix in _SUFFIXES:
        found = path.with_name(path.name + suffix)
        if found.exists():
            return found
    raise FileNotFoundError(f"there is no {path} (nor {path.name}.gz)")


def _deciding(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if name not in _UNDECISIVE}


def _digest(said: object) -> str:
    text = json.dumps(said, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
