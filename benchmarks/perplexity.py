"""A model and n-gram models of its text on the same hidden tokens -> their perplexities.

    python -m benchmarks.perplexity --model mini-en --corpus CORPUS

The held-out examples are those of every evaluation: the corpus's held-out documents, drawn and
masked with a fixed key. The n-gram models (`ngrams`) are counted on the training split, across
sentences, since the model's segments run across them too, and see what the model sees: the stream
with its masks. Of a hidden neighbour they know nothing, nor of `[CLS]` and `[SEP]`: such contexts
are never in the text, and leave the level below.

Every one is a distribution over the whole vocabulary: Witten and Bell's rule joins all levels, the
lowest of which is uniform. And every one reads the token at the predicted place, as the model
does: 80% of these are `[MASK]`, which says nothing; any other is there because it was left, or
because it was drawn from the vocabulary, and Bayes' rule weighs both by the masking's shares.

Reported: loss, perplexity and accuracy on all predicted tokens, and on those hidden by `[MASK]`.

Legend: Q predicted tokens, V vocabulary.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.machine import append_row
from benchmarks.ngrams import SYSTEMS, Baselines, FloatArray, Int64Array, count
from benchmarks.questions import OFFSETS
from bertsmith.batch import PretrainBatch
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.pairs import PairRules
from bertsmith.data.plan import Plan, StepRules
from bertsmith.inference import Predictor
from bertsmith.runs.evaluation import EVALUATION_SEED, evaluate, held_out_batches

MASKING = Masking()
_SEQUENCE_LENGTH = 128


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one system reached on some of the predicted tokens."""

    loss: float
    """Nats a token."""
    perplexity: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one run found."""

    corpus: str
    train_tokens: int
    sequences: int
    targets: int
    """Predicted tokens."""
    masked: int
    """Those of them that are hidden by `[MASK]`."""
    all: dict[str, Figures]
    """The model and SYSTEMS on all predicted tokens."""
    only_masked: dict[str, Figures]
    """The same on those that are hidden by `[MASK]`."""
    counting_seconds: float


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Q predicted tokens and what can be seen of them."""

    windows: Int64Array
    """(Q, 4) tokens at OFFSETS, masks included; the vocabulary's size beyond the sequence."""
    seen: Int64Array
    """(Q,) the tokens in their places: `[MASK]`, themselves or any."""
    truth: Int64Array
    """(Q,) the tokens."""


def main() -> None:
    """Measures all systems, prints the table and appends one row."""
    options = _options()
    row = measure(
        Predictor.load(options.model, precision="fp32"), options.corpus, options.sequences
    )
    print("\n".join(table(row)))
    append_row("perplexity", {"model": Path(options.model).name, **asdict(row)})


def measure(predictor: Predictor, corpus: Path, num_sequences: int) -> Row:
    """One row: the model and the n-gram models on the same held-out tokens."""
    predictor.abilities.require("masked_lm")
    train, mask_id = Corpus.open(corpus, "train"), predictor.tokenizer.mask_id
    train.check_vocabulary(predictor.tokenizer)
    batches = examples(predictor, corpus, num_sequences)
    if not batches:
        raise ValueError(f"{corpus} holds out fewer than 2 documents; build it with more held out")
    hidden = hidden_tokens(batches, train.manifest.vocab_size)
    began = time.perf_counter()
    baselines = baselines_of(train, hidden.windows)
    counting_seconds = time.perf_counter() - began
    losses, hits = judge(baselines, hidden, mask_id)
    is_masked = hidden.seen == mask_id
    masked_batches = [_only_masked(batch, mask_id) for batch in batches]
    return Row(
        corpus=corpus.resolve().name,
        train_tokens=train.num_tokens,
        sequences=sum(batch.packed.num_sequences for batch in batches),
        targets=len(hidden.truth),
        masked=int(is_masked.sum()),
        all={
            "model": _of_model(predictor, batches),
            **{name: _figures(losses[name], hits[name]) for name in SYSTEMS},
        },
        only_masked={
            "model": _of_model(predictor, masked_batches),
            **{name: _figures(losses[name][is_masked], hits[name][is_masked]) for name in SYSTEMS},
        },
        counting_seconds=round(counting_seconds, 1),
    )


def examples(predictor: Predictor, corpus: Path, num_sequences: int) -> list[PretrainBatch]:
    """The corpus's held-out examples for this model; none where too few documents were held out."""
    documents = Corpus.open(corpus, "held_out")
    if documents.num_documents < 2:
        return []
    rules = StepRules(
        batch_size=32,
        pairs=PairRules(sequence_length=min(_SEQUENCE_LENGTH, predictor.limit)),
        masking=MASKING,
        objectives=predictor.model.objectives,
        seed=EVALUATION_SEED,
    )
    return held_out_batches(Plan(documents, rules), num_sequences)


def hidden_tokens(batches: Sequence[PretrainBatch], vocab_size: int) -> Hidden:
    """The predicted tokens of all batches, in order, with what stands in and around their places.

    Nothing beyond a sequence's ends is seen: not the next one in the stream.
    """
    windows = []
    for batch in batches:
        packed, rows = batch.packed, batch.target_rows
        sequences = np.repeat(np.arange(packed.num_sequences), packed.lengths)  # (T,)
        around = rows[:, None] + np.array(OFFSETS)  # (Q, 4)
        inside = np.clip(around, 0, packed.num_tokens - 1)
        is_own = (inside == around) & (sequences[inside] == sequences[rows][:, None])
        windows.append(np.where(is_own, packed.token_ids[inside].astype(np.int64), vocab_size))
    return Hidden(
        windows=np.concatenate(windows),
        seen=np.concatenate([each.packed.token_ids[each.target_rows] for each in batches]),
        truth=np.concatenate([each.target_ids for each in batches]),
    )


def baselines_of(train: Corpus, windows: Int64Array) -> Baselines:
    """The n-gram models of a text, which give every token of the vocabulary a probability."""
    counted = count(train, windows, left_out=frozenset(), unit="document")
    times = train.token_counts.astype(np.float64)  # (V,)
    num_different = np.count_nonzero(times)
    joined = (times + num_different / len(times)) / (times.sum() + num_different)
    return replace(counted, unigrams=joined)


def judge(
    baselines: Baselines, hidden: Hidden, mask_id: int
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """For each of SYSTEMS: the loss on every predicted token, and whether it was right; (Q,)."""
    losses = {name: np.zeros(len(hidden.truth)) for name in SYSTEMS}
    hits = {name: np.zeros(len(hidden.truth)) for name in SYSTEMS}
    for number, (seen, truth) in enumerate(zip(hidden.seen, hidden.truth, strict=True)):
        for name, probabilities in baselines.probabilities(number).items():
            known = probabilities if seen == mask_id else having_seen(probabilities, int(seen))
            losses[name][number] = -math.log(known[truth])
            hits[name][number] = known.argmax() == truth
    return losses, hits


def having_seen(probabilities: FloatArray, token: int) -> FloatArray:
    """(V,) the probabilities of the predicted token, given which one stands in its place.

    It was left there (`keep`), or drawn from the vocabulary; `[MASK]` itself would say nothing.
    """
    drawn = MASKING.random_share / len(probabilities)
    keep = 1.0 - MASKING.mask_share - MASKING.random_share
    weighed = drawn * probabilities
    weighed[token] += keep * probabilities[token]
    known: FloatArray = weighed / weighed.sum()
    return known


def table(row: Row) -> list[str]:
    """The row as Markdown."""
    return [
        f"| perplexity (accuracy) | all {row.targets:,} predicted tokens | "
        f"the {row.masked:,} under `[MASK]` |",
        "|---|---|---|",
        *(
            f"| {name.replace('_', ' ')} | {_words(row.all[name])} | "
            f"{_words(row.only_masked[name])} |"
            for name in row.all
        ),
    ]


def _only_masked(batch: PretrainBatch, mask_id: int) -> PretrainBatch:
    """The batch, to predict only what `[MASK]` hides."""
    chosen = batch.packed.token_ids[batch.target_rows] == mask_id
    return replace(
        batch, target_rows=batch.target_rows[chosen], target_ids=batch.target_ids[chosen]
    )


def _of_model(predictor: Predictor, batches: Sequence[PretrainBatch]) -> Figures:
    found = evaluate(predictor.model, batches)
    return Figures(loss=found.loss, perplexity=found.perplexity, accuracy=found.accuracy)


def _figures(losses: FloatArray, hits: FloatArray) -> Figures:
    loss = float(losses.mean())
    return Figures(loss=loss, perplexity=math.exp(loss), accuracy=float(hits.mean()))


def _words(figures: Figures) -> str:
    return f"{figures.perplexity:.1f} ({figures.accuracy:.1%})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", required=True, help="a name under models/, a path or a Hub id")
    parser.add_argument("--corpus", required=True, type=Path, help="the corpus it was trained on")
    parser.add_argument("--sequences", type=int, default=2048, help="held-out sequences")
    return parser.parse_args()


if __name__ == "__main__":
    main()
