"""A run -> everything that turns: model, optimizer, batches; and the same from a checkpoint.

`pretrain` and the measurement before it build their parts here, so what is measured is what runs.
It decides nothing: every choice is in the run, every fact in the corpus and the machine.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.batch import PretrainBatch
from bertsmith.checkpoints import store
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.loader import batches
from bertsmith.data.pairs import PairRules
from bertsmith.data.plan import Plan, StepRules
from bertsmith.files import atomic_directory
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.evaluation import EVALUATION_SEED
from bertsmith.runs.functions import prepare_steps
from bertsmith.runs.learner import Learner
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.config import Precision
from bertsmith.train.device import recorded_precision
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.placement import placed
from bertsmith.train.schedule import ScheduleConfig
from bertsmith.train.state import save_state

POSITIONS = "bert.embeddings.position.weight"
"""Of a model's state: a row for every place in a sequence."""


@dataclass(frozen=True, kw_only=True)
class Trainee:
    """A model on its device, and the optimizer that holds its weights."""

    model: PretrainModel
    learner: Learner
    optimizer: Optimizer
    schedule: ScheduleConfig
    precision: Precision


def trainee(
    run: PretrainRun, device: torch.device, first: Mapping[str, Tensor] | None = None
) -> Trainee:
    """Builds the model with its first weights, and an optimizer without history.

    `first` holds those of a model that is gone on from; what it lacks is drawn by the seed.
    """
    precision = recorded_precision(run.precision, device)
    prepare_steps(precision, device)
    model = PretrainModel(run.model, run.objectives)
    initialise(model, std=run.model.initializer_range, seed=run.seed)
    if first is not None:
        drawn = model.state_dict()
        model.load_state_dict({name: first.get(name, drawn[name]) for name in drawn})
    optimizer = placed(model, run.optimizer, precision, device)
    return Trainee(
        model=model,
        learner=Learner(model, seed=run.seed, with_dropout=run.dropout),
        optimizer=optimizer,
        schedule=ScheduleConfig(total_steps=run.num_steps, warmup_steps=run.warmup_steps),
        precision=precision,
    )


def plan_of(run: PretrainRun, number: int, corpus: Corpus) -> Plan:
    """The batches of phase `number`, as a function of the step counted from the phase's start.

    Phases of one sequence length share a stream of sequences: the later goes on where the earlier
    ends. Another length has draws of its own.
    """
    phase = run.phases[number]
    taken = sum(
        earlier.steps * earlier.batch_size
        for earlier in run.phases[:number]
        if earlier.sequence_length == phase.sequence_length
    )
    return Plan(corpus, rules_of(run, phase, seed=run.seed, first_sequence=taken))


def rules_of(run: PretrainRun, phase: Phase, *, seed: int, first_sequence: int = 0) -> StepRules:
    """What decides the batches of a phase, beside the corpus."""
    return StepRules(
        batch_size=phase.batch_size,
        pairs=PairRules(
            sequence_length=phase.sequence_length,
            short_probability=run.short_probability,
            form=run.form,
        ),
        masking=run.masking,
        objectives=run.objectives,
        seed=seed,
        first_sequence=first_sequence,
    )


def held_out_rules(run: PretrainRun, phase: Phase, num_documents: int) -> StepRules:
    """What decides the batches of an evaluation: the phase's length, always the paper's masking.

    So the figures of runs that mask otherwise, or with other seeds, compare. A single document has
    no other to take a random B from: there B always follows, and next_sentence is left out.
    """
    if num_documents < 2 and "next_sentence" in run.objectives:
        others = tuple(name for name in run.objectives if name != "next_sentence")
        run = replace(run, objectives=others, form="consecutive_pair")
    return replace(rules_of(run, phase, seed=EVALUATION_SEED), masking=Masking())


def batches_from(
    run: PretrainRun, corpus: Corpus, start: int
) -> Generator[PretrainBatch, None, None]:
    """Every step's batch from update `start` on, through all phases."""
    for number, phase in enumerate(run.phases):
        if start < phase.steps:
            plan = plan_of(run, number, corpus)
            yield from batches(plan, start, phase.steps, run.loader_workers)
        start = max(0, start - phase.steps)


def begin_phase(run: PretrainRun, finished: int, trained: Trainee) -> None:
    """To be called before update `finished` + 1: copies positions where a longer phase begins.

    Position p of the longer phase starts as position p modulo the longest length so far, so that
    every token finds its neighbours at once. Without `tile_positions`, or inside a phase, nothing
    changes. Source: Beltagy et al. 2020 (Longformer), section 5.
    """
    if not run.tile_positions:
        return
    known, start = 0, 0
    for phase in run.phases:
        if 0 < start == finished and phase.sequence_length > known:
            for table in (trained.model.state_dict(), trained.optimizer.masters()):
                tile_positions_(table[POSITIONS][: phase.sequence_length], known)
        known, start = max(known, phase.sequence_length), start + phase.steps


def tile_positions_(table: Tensor, known: int) -> None:
    """Makes rows of (P, H) from `known` on copies of those before, in their order, in place."""
    rows = torch.arange(known, len(table))
    table[rows] = table[rows % known]


def phase_at(run: PretrainRun, step: int) -> Phase:
    """The phase in which update number `step` (counted from 1) falls."""
    for phase in run.phases:
        if step <= phase.steps:
            return phase
        step -= phase.steps
    return run.phases[-1]


def save_checkpoint(path: Path, trained: Trainee, step: int, tokenizer: Tokenizer) -> None:
    """Writes the model in the Hugging Face layout and the trainer's state, as one atomic directory.

    The model's weights are the optimizer's float32 masters, whatever precision trains.
    """
    masters = {**trained.model.state_dict(), **trained.optimizer.masters()}
    config = replace(trained.model.config, pad_token_id=tokenizer.pad_id)
    with atomic_directory(path) as directory:
        store.write(directory, masters, config, tokenizer)
        save_state(directory, trained.optimizer, step, {})
