"""What a run is: everything that decides the weights, as one frozen value.

A recipe builds one, a variant is `dataclasses.replace(...)`, the command line is made from the same
fields, and `run.json` in the run's directory is the same value again. Nothing here does anything:
where the text lies and how long to train are the command's questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec

from bertsmith.data.config import Masking, PairForm
from bertsmith.model.config import BASE, BertConfig, Objective
from bertsmith.train.config import OptimizerConfig, PrecisionChoice

_PHASE_FORM = "STEPSxLENGTHxBATCH"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of steps with sequences of one length; phases share one learning-rate schedule."""

    steps: int
    """Updates of this phase (paper: 900,000, then 100,000)."""
    sequence_length: int = 128
    """The longest sequence, special tokens included (paper: 128, then 512)."""
    batch_size: int = 256
    """Sequences a step, over all micro-batches and processes (paper: 256)."""

    def __post_init__(self) -> None:
        """Refuses a phase that could not take a step."""
        for name, value, least in (
            ("steps", self.steps, 1),
            ("sequence_length", self.sequence_length, 8),
            ("batch_size", self.batch_size, 1),
        ):
            if value < least:
                raise ValueError(f"{name} of a phase must be at least {least}, found {value}")

    def __str__(self) -> str:
        """`900000x128x256`: steps, sequence length, batch size."""
        return f"{self.steps}x{self.sequence_length}x{self.batch_size}"

    @classmethod
    def parse(cls, text: str) -> Phase:
        """The phase that `str` wrote. Raises ValueError for other texts."""
        numbers = text.split("x")
        if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"a phase is {_PHASE_FORM}, such as 900000x128x256; found {text!r}")
        steps, sequence_length, batch_size = map(int, numbers)
        return cls(steps=steps, sequence_length=sequence_length, batch_size=batch_size)


# On the command line a phase is one word, so that a run may have any number of them.
_TypedPhase = Annotated[
    Phase,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar=_PHASE_FORM,
        instance_from_str=lambda words: Phase.parse(words[0]),
        is_instance=lambda value: isinstance(value, Phase),
        str_from_instance=lambda phase: [str(phase)],
    ),
]


@dataclass(frozen=True, kw_only=True)
class PretrainRun:
    """A pre-training run. Weights are a function of this value, the corpus and the machine.

    Where a run goes on from a model, that model is another of these, and stands beside the corpus
    in the record of the run, as a fine-tuning run's does.
    """

    name: str = "pretrain"
    """What the run is called in its report."""
    model: BertConfig = BASE
    """The encoder; `vocab_size` is taken from the vocabulary when the run starts."""
    objectives: tuple[Objective, ...] = ("masked_lm", "next_sentence")
    """What is predicted (paper: both)."""
    form: PairForm = "pairs"
    """What a sequence holds (paper: pairs, B random half of the time)."""
    short_probability: float = 0.1
    """Share of documents drawn at a shorter target length (google-research/bert: 0.1)."""
    dropout: bool = True
    """Whether the model's dropout is on in pre-training (paper: on); the config keeps its rates."""
    masking: Masking = field(default_factory=Masking)
    """Which positions are predicted, and what stands there instead."""
    phases: tuple[_TypedPhase, ...] = (
        Phase(steps=900_000, sequence_length=128),
        Phase(steps=100_000, sequence_length=512),
    )
    """Stretches of one sequence length each, in order (paper: 900000x128x256 100000x512x256)."""
    tile_positions: bool = False
    """Whether the new positions of a longer phase begin as copies of those before (paper: no)."""
    count_embeddings: bool = False
    """Whether token embeddings begin as vectors counted from the text, not drawn (paper: drawn)."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimizer and its peak learning rate."""
    warmup_steps: int = 10_000
    """Updates of linear warm-up, before linear decay to 0 over all phases (paper: 10,000)."""
    accumulation: int = 1
    """Micro-batches a step and process; changes memory, not the result."""
    precision: PrecisionChoice = "auto"
    """Arithmetic of the matrices; auto: bf16 where that is faster, else fp16 or fp32."""
    seed: int = 0
    """Keys every draw: initial weights, pairs, masks, shuffling, dropout."""
    evaluate_every: int = 10_000
    """Steps between two evaluations on the held-out documents."""
    evaluate_sequences: int = 1_024
    """Held-out sequences of an evaluation, the same ones within a phase's length."""
    save_every: int = 10_000
    """Steps between two checkpoints."""
    keep_checkpoints: int = 2
    """Newest checkpoints kept; older ones are deleted."""
    keep_every: int = 0
    """Steps between two checkpoints that are kept for good, multiples of save_every; 0: none."""
    log_every: int = 100
    """Steps between two printed lines where the output is not a terminal."""
    record_every: int = 1
    """Steps between two lines of metrics.jsonl; on a GPU each waits for the device."""
    loader_workers: int = 0
    """Processes that draw batches ahead; 0 or 1: a background thread. The bits stay the same."""

    def __post_init__(self) -> None:
        """Refuses contradictions between fields, before any text is read."""
        if not self.phases:
            raise ValueError("a run needs at least one phase, found none")
        for name, value in (
            ("accumulation", self.accumulation),
            ("evaluate_every", self.evaluate_every),
            ("evaluate_sequences", self.evaluate_sequences),
            ("save_every", self.save_every),
            ("keep_checkpoints", self.keep_checkpoints),
            ("log_every", self.log_every),
            ("record_every", self.record_every),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, found {value}")
        if self.keep_every < 0 or self.keep_every % self.save_every:
            raise ValueError(
                f"keep_every must be a multiple of save_every ({self.save_every:,}), found "
                f"{self.keep_every:,}: what is not saved cannot be kept"
            )
        if self.loader_workers < 0:
            raise ValueError(f"loader_workers must not be negative, found {self.loader_workers}")
        longest = max(phase.sequence_length for phase in self.phases)
        if longest > self.model.max_position_embeddings:
            raise ValueError(
                f"a phase has sequences of {longest} tokens, but the model has only "
                f"{self.model.max_position_embeddings} positions (model.max_position_embeddings)"
            )
        if not 0 <= self.warmup_steps < self.num_steps:
            raise ValueError(
                f"warmup_steps must be in [0, {self.num_steps}), the steps of all phases; found "
                f"{self.warmup_steps}: warm up for fewer steps, or train for more"
            )
        if self.form != "one_segment" and self.model.type_vocab_size < 2:
            raise ValueError(
                f"the form '{self.form}' needs a second segment, but the model has only one "
                f"(model.type_vocab_size 1); give it two, or choose the form 'one_segment'"
            )
        if "next_sentence" in self.objectives and self.form != "pairs":
            raise ValueError(
                f"next_sentence needs the form 'pairs', found '{self.form}'; change the form or "
                f"leave next_sentence out of the objectives"
            )

    @property
    def num_steps(self) -> int:
        """Updates over all phases."""
        return sum(phase.steps for phase in self.phases)


STEP_FIELDS = ("warmup_steps", "evaluate_every", "save_every", "log_every")
"""What is counted in updates beside the phases."""


def stretched(run: PretrainRun, num_steps: int, kept: Collection[str] = frozenset()) -> PretrainRun:
    """The same run over `num_steps` updates: phases, warm-up and set steps keep their shares.

    Fields named in `kept` (of `STEP_FIELDS`) stay as they are: a person typed them.
    """
    if num_steps == run.num_steps:
        return run
    if num_steps < 2 * len(run.phases):
        raise ValueError(
            f"a run of {len(run.phases)} phases needs at least {2 * len(run.phases)} steps, found "
            f"{num_steps}"
        )
    ratio = num_steps / run.num_steps
    later = [max(1, round(phase.steps * ratio)) for phase in run.phases[1:]]
    steps = [num_steps - sum(later), *later]

    def changed(name: str, count: int, share: float = ratio) -> int:
        return count if name in kept else max(1, round(count * share))

    warmup_steps = run.warmup_steps
    if "warmup_steps" not in kept:
        warmup_steps = min(num_steps - 1, round(warmup_steps * ratio))
    return replace(
        run,
        phases=tuple(
            replace(phase, steps=count) for phase, count in zip(run.phases, steps, strict=True)
        ),
        warmup_steps=warmup_steps,
        evaluate_every=changed("evaluate_every", run.evaluate_every),
        save_every=changed("save_every", run.save_every),
        log_every=changed("log_every", run.log_every, min(1.0, ratio)),
    )


def to_json(run: PretrainRun) -> dict[str, object]:
    """The run as JSON values."""
    return dataclasses.asdict(run)


def from_json(value: Mapping[str, Any]) -> PretrainRun:
    """The run that `to_json` wrote. Raises TypeError for fields this version does not know."""
    parts = {
        "model": BertConfig(**value["model"]),
        "masking": Masking(**value["masking"]),
        "optimizer": OptimizerConfig(**value["optimizer"]),
        "objectives": tuple(value["objectives"]),
        "phases": tuple(Phase(**phase) for phase in value["phases"]),
    }
    return PretrainRun(**{**value, **parts})
