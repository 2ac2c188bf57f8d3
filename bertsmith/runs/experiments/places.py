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
from bertsmith.recipes.experiments.experiment import Joined, Model, Pretrained, Score
from bertsmith.runs.experiments.elsewhere import HandedOn
from bertsmith.tasks import glue

_DIGITS = 12
_UNDECISIVE = (
    "name", "accumulation", "evaluate_every", "save_every", "keep_checkpoints", "log_every",
    "record_every", "loader_workers",
)  # fmt: skip
"""Fields of a run that change no number that is read."""
_SUFFIXES = ("", ".gz")


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where everything of some experiments lies."""

    directory: Path
    data: Path
    """The folder of labelled sets."""
    corpora: Mapping[bool, str]
    """Fingerprints of the corpora, by whether they are cased."""
    elsewhere: Mapping[str, HandedOn] = field(default_factory=dict)
    """What other machines have found, by `name_of`."""
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
        return self.of_score(model.learned, is_kept=True)

    def of_score(self, score: Score, *, is_kept: bool = False) -> Path:
        """The directory of the search that all its restarts lie in.

        Where weights are kept, for others to begin with, it is another one.
        """
        model = score.model
        said = {
            "model": self.of_model(model).name,
            "step": model.step if isinstance(model, Pretrained) else None,
            **_tiled(model),
            "run": _deciding(finetuning.to_json(score.run)),
            "grid": None if score.grid is None else vars(score.grid),
            "most_examples": score.most_examples,
            "max_tokens": score.max_tokens,
            "options": score.options,
            "examples": self.hash_of(score.exam),
            "is_kept": is_kept,
        }
        name = score.exam.replace(" ", "-")
        return self.directory / "fine-tuned" / f"{name}-{score.run.name}-{_digest(said)}"

    def of(self, part: Model | Score) -> Path:
        """The directory of any part."""
        return self.of_score(part) if isinstance(part, Score) else self.of_model(part)

    def name_of(self, part: Model | Score) -> str:
        """What tells a part from all others, on any machine."""
        return self.of(part).relative_to(self.directory).as_posix()

    def place_of_claim(self, place: Path) -> Path:
        """A directory that the process holds which makes what lies in `place`."""
        return self.directory / ".claims" / f"{place.parent.name}-{place.name}"

    def hash_of(self, exam: str) -> str:
        """Of the bytes of its files."""
        digest = hashlib.sha256()
        for path in files_of(EXAMS[exam], self.data):
            if path not in self._hashes:
                self._hashes[path] = sha256(path)
            digest.update(self._hashes[path].encode())
        return digest.hexdigest()


def known_positions(model: Pretrained) -> tuple[int, int]:
    """How many positions a checkpoint has trained, and how many the run's last phases read.

    Equal where longer phases do not begin with copies: then none are made of it either.
    """
    longest = max(phase.sequence_length for phase in model.run.phases)
    if model.step is None or not model.run.tile_positions:
        return longest, longest
    known, start = 0, 0
    for phase in model.run.phases:
        if start < model.step:
            known = max(known, phase.sequence_length)
        start += phase.steps
    return known, longest


def _tiled(model: Model) -> dict[str, int]:
    """What is said of a checkpoint whose positions are copied before it is fine-tuned."""
    if not isinstance(model, Pretrained):
        return {}
    known, longest = known_positions(model)
    return {} if known == longest else {"known_positions": known}


def key_of(part: Model | Score, site: Site) -> str:
    """Equal for parts that share everything."""
    step = part.step if isinstance(part, Pretrained) else None
    return f"{site.of(part)}@{step}"


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


def gap_of(exam: Exam, data: Path) -> str:
    """Why a set's files are not there; empty where they are."""
    try:
        files_of(exam, data)
    except FileNotFoundError as error:
        return str(error)
    return ""


def _there(path: Path) -> Path:
    for suffix in _SUFFIXES:
        found = path.with_name(path.name + suffix)
        if found.exists():
            return found
    raise FileNotFoundError(f"there is no {path} (nor {path.name}.gz)")


def _deciding(values: Mapping[str, object]) -> dict[str, object]:
    """Where the best model on Dev is kept, how often there is one to choose decides too."""
    is_chosen = bool(values.get("keep_best"))
    return {
        name: value
        for name, value in values.items()
        if name not in _UNDECISIVE or (is_chosen and name == "evaluate_every")
    }


def _digest(said: object) -> str:
    text = json.dumps(said, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
