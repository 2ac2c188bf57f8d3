"""A pre-training run and its corpus -> how many of its pairs have a random B, in words.

The rule draws a random B half of the time and always in a chunk of one sentence, so that the share
depends on the text and on the length of a sequence. It draws at most eight shards, and trains
nothing.
"""

from __future__ import annotations

from bertsmith.corpus.store import Corpus
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.training import plan_of


def told_random_pairs(run: PretrainRun, corpus: Corpus) -> str:
    """`B was random in 79% of the sequences of at most 32 tokens and in 56% of ...`, and of all."""
    plans = [plan_of(run, number, corpus) for number in range(len(run.phases))]
    shares = [plan.describe().random_share for plan in plans]
    counts = [phase.steps * phase.batch_size for phase in run.phases]
    of_all = sum(s * n for s, n in zip(shares, counts, strict=True)) / sum(counts)
    told = " and in ".join(
        f"{share:.0%} of the sequences of at most {phase.sequence_length} tokens"
        for share, phase in zip(shares, run.phases, strict=True)
    )
    more = f": {of_all:.0%} of all" if len(shares) > 1 else ""
    return f"B was random in {told}{more}."
