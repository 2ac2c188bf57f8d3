"""Milliseconds to draw a step of 32 x 128, beside a training step of Mini in the same run.

    python -m benchmarks.drawing --corpus CORPUS

A step's cost has two parts. Its pairs are drawn for several shards at once and then last for many
steps: their share is the time for all rows of an epoch, divided by its steps. The rest (reading,
joining, masking) is paid at every step: a median. Training steps and drawn steps take turns, and
the batches trained on are those drawn. Target: drawing costs at most 1% of training.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.machine import append_row
from benchmarks.systems import Setup, Step, ours
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.epochs import Epochs
from bertsmith.data.pairs import PairRules
from bertsmith.data.plan import Plan, StepRules
from bertsmith.model.config import SIZES
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel

TARGET_SHARE = 0.01
_ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one run found."""

    corpus: str
    corpus_tokens: int
    rows_per_epoch: int
    size: str
    batch: int
    length: int
    tokens: float
    """Real ones a step, a median."""
    pairs_ms: float
    """A step's share of drawing the rows of an epoch."""
    batch_ms: float
    """Reading, joining and masking one step, a median."""
    train_ms: float
    """A training step on that batch, a median."""
    share: float
    """Drawing as a share of training."""


def main() -> None:
    """Measures, prints and appends one row."""
    options = _options()
    row = measure(options)
    print(
        f"drawing a step of {row.batch} x {row.length}: {row.pairs_ms:.2f} ms for its pairs + "
        f"{row.batch_ms:.2f} ms; training {row.size} on it: {row.train_ms:.1f} ms; share "
        f"{row.share:.2%} (target {TARGET_SHARE:.0%})"
    )
    append_row("drawing", asdict(row))


def measure(options: argparse.Namespace) -> Row:
    """Draws the rows of an epoch, then draws and trains in turn."""
    corpus = Corpus.open(options.corpus)
    rules = StepRules(
        batch_size=options.batch,
        pairs=PairRules(sequence_length=options.length),
        masking=Masking(),
    )
    pairs_ms = 1e3 * options.batch * seconds_a_row(corpus, rules)
    plan = Plan(corpus, rules)
    train = training_step(options.size, corpus)
    drawn: list[float] = []
    trained: list[float] = []
    tokens: list[int] = []
    # The first two of each warm up: pairs, page cache and kernels.
    for number in range(options.rounds + 2):
        began = time.perf_counter()
        batch = plan.step(number)
        middle = time.perf_counter()
        train(batch, number)
        drawn.append(1e3 * (middle - began))
        trained.append(1e3 * (time.perf_counter() - middle))
        tokens.append(batch.num_tokens)
    batch_ms, train_ms = statistics.median(drawn[2:]), statistics.median(trained[2:])
    return Row(
        corpus=options.corpus.resolve().name,
        corpus_tokens=corpus.num_tokens,
        rows_per_epoch=plan.rows_per_epoch,
        size=options.size,
        batch=options.batch,
        length=options.length,
        tokens=statistics.median(tokens),
        pairs_ms=pairs_ms,
        batch_ms=batch_ms,
        train_ms=train_ms,
        share=(pairs_ms + batch_ms) / train_ms,
    )


def seconds_a_row(corpus: Corpus, rules: StepRules) -> float:
    """Mean time to draw a row, over all rows of an epoch in their order."""
    epochs = Epochs(corpus, rules.pairs, rules.masking.fixed_copies, rules.seed)
    total = epochs.rows_per_epoch
    began = time.perf_counter()
    for first in range(0, total, _ROWS_AT_ONCE):
        epochs.rows(first, min(_ROWS_AT_ONCE, total - first))
    return (time.perf_counter() - began) / total


def training_step(size: str, corpus: Corpus) -> Step:
    """A step of `bertsmith pretrain` on this machine, over the corpus's vocabulary."""
    config = replace(SIZES[size], vocab_size=corpus.manifest.vocab_size)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=config.initializer_range, seed=0)
    return ours(Setup(config=config, weights=model.state_dict()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=25)
    return parser.parse_args()


if __name__ == "__main__":
    main()
