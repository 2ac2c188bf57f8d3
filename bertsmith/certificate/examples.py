"""Checks of how pre-training examples are made: masks and pairs, against golden counts.

Draws differ from the original's, so distributions are compared, to five deviations; how many
positions are predicted is exact.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.array_files import write_array
from bertsmith.certificate.comparisons import DEVIATIONS, alike
from bertsmith.certificate.rows import Row, agreeing, outcome
from bertsmith.certificate.values import golden_values
from bertsmith.corpus.manifest import Manifest, Report
from bertsmith.corpus.store import COUNTS_FILE, Corpus
from bertsmith.corpus.writer import Documents, ShardWriter
from bertsmith.data.config import Masking
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.data.pairs import PairRules, draw
from bertsmith.randomness import Int64Array, integers

_MASKING = "paper, section 3.1; create_pretraining_data.py, create_masked_lm_predictions"
_PAIRS = "paper, appendix A.2; create_pretraining_data.py, create_instances_from_document"
_SEED = 1


def predictions_a_sequence() -> Row:
    """Exactly max(1, round(0.15 n)) positions, and never a special token, at every length."""
    values = golden_values("masking")
    counts = values.integers("num_to_predict")
    lengths = (np.arange(len(counts)) + values.integer("first_length")).astype(np.int32)
    starts = np.cumsum(lengths) - lengths
    tokens = np.full(lengths.sum(), 5, dtype=np.int32)
    tokens[starts], tokens[starts + lengths - 1] = 2, 3
    facts = VocabularyFacts(
        vocab_size=6, cls_id=2, sep_id=3, mask_id=4, is_continuation=np.zeros(6, dtype=bool)
    )
    found, expected = {}, {}
    for name, most in (("num_to_predict", None), ("num_to_predict_of_20_at_most", 20)):
        masking = Masking(max_predictions=most)
        _, rows, targets = mask(tokens, lengths, lengths.astype(np.int64), masking, facts, _SEED)
        numbers = np.bincount(
            np.searchsorted(starts, rows, side="right") - 1, minlength=len(starts)
        )
        golden = values.integers(name)
        for length, ours, theirs in zip(lengths.tolist(), numbers, golden, strict=True):
            found[f"length {length}, {most or 'any'}"] = int(ours)
            expected[f"length {length}, {most or 'any'}"] = int(theirs)
        found[f"special tokens predicted, {most or 'any'}"] = int((targets != 5).sum())
        expected[f"special tokens predicted, {most or 'any'}"] = 0
    return agreeing("positions predicted at every length", found, expected, reference=_MASKING)


def fates() -> Row:
    """80% [MASK], 10% unchanged, 10% a random token."""
    golden = golden_values("masking").at("per_token", "fates")
    kinds = [kind for kind, _ in golden.items()]
    ours = _masked(whole_word=False).fates
    return alike(
        "80% [MASK], 10% random, 10% unchanged",
        [ours[kind] for kind in kinds],
        [golden.number(kind) for kind in kinds],
        reference=_MASKING,
    )


def chosen_positions() -> Row:
    """Every ordinary position alike."""
    return _counts("positions that are chosen", "per_token", "positions")


def random_tokens() -> Row:
    """From the whole vocabulary, special tokens included."""
    return _counts("random tokens are of the whole vocabulary", "per_token", "random_tokens")


def whole_words() -> Row:
    """Whole words: how many positions a sequence, since a word that does not fit is passed over."""
    return _counts("whole words, predictions a sequence", "whole_word", "predictions_a_sequence")


def whole_word_positions() -> Row:
    """Whole words: which positions."""
    return _counts("whole words, positions", "whole_word", "positions")


def pairs() -> Row:
    """How many pairs a document gives, how many are random, how long they are."""
    values = golden_values("pairs")
    worst, where = 0.0, ""
    for size, golden in values.items("by_sentences_a_document"):
        num_documents = golden.integer("documents")
        means = _drawn(int(size), num_documents).mean(axis=0)
        # Documents are independent of each other, the pairs of one document are not.
        errors = golden.numbers("deviation") * np.sqrt(2.0 / num_documents)
        distances = np.abs(means - golden.numbers("mean")) / np.maximum(errors, 1e-9)
        if distances.max() > worst:
            worst = float(distances.max())
            what = values.words("counted")[int(distances.argmax())]
            where = f"{what} of {size}-sentence documents"
    return Row(
        name="next-sentence pairs: number, random ones, length",
        status=outcome(worst <= DEVIATIONS),
        found=f"off by {worst:.1f} deviations ({where})",
        expected=f"the golden means within {DEVIATIONS:.0f} deviations",
        reference=_PAIRS,
    )


CHECKS: tuple[Callable[[], Row], ...] = (
    predictions_a_sequence, fates, chosen_positions, random_tokens, whole_words,
    whole_word_positions, pairs,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Masked:
    """One sequence masked many times, counted as the golden counts are."""

    fates: dict[str, int]
    positions: Int64Array
    random_tokens: Int64Array
    predictions_a_sequence: Int64Array


def _masked(*, whole_word: bool) -> _Masked:
    values = golden_values("masking")
    vocabulary, sequence = values.words("vocabulary"), values.words("sequence")
    times, length = values.integer("times"), len(sequence)
    tokens = np.tile(np.array([vocabulary.index(each) for each in sequence], np.int32), times)
    facts = VocabularyFacts(
        vocab_size=len(vocabulary),
        cls_id=vocabulary.index("[CLS]"),
        sep_id=vocabulary.index("[SEP]"),
        mask_id=vocabulary.index("[MASK]"),
        is_continuation=np.array([each.startswith("##") for each in vocabulary]),
    )
    masking, keys = Masking(whole_word=whole_word), np.arange(times, dtype=np.int64)
    lengths = np.full(times, length, dtype=np.int32)
    masked, rows, targets = mask(tokens, lengths, keys, masking, facts, _SEED)
    seen = masked[rows]
    is_mask, is_kept = seen == facts.mask_id, seen == targets
    is_random = ~is_mask & ~is_kept
    return _Masked(
        fates={
            "mask": int(is_mask.sum()), "kept": int(is_kept.sum()), "random": int(is_random.sum())
        },
        positions=np.bincount(rows % length, minlength=length),
        random_tokens=np.bincount(seen[is_random], minlength=len(vocabulary)),
        predictions_a_sequence=np.bincount(
            np.bincount(rows // length, minlength=times), minlength=length
        ),
    )  # fmt: skip


def _counts(name: str, kind: str, what: str) -> Row:
    golden = golden_values("masking").numbers(kind, what)
    masked = _masked(whole_word=kind == "whole_word")
    ours = {
        "positions": masked.positions,
        "random_tokens": masked.random_tokens,
        "predictions_a_sequence": masked.predictions_a_sequence,
    }[what]
    return alike(name, ours, golden, reference=_MASKING)


def _drawn(sentences_a_document: int, num_documents: int) -> Int64Array:
    """(D, 3) pairs, random pairs and tokens that `data.pairs.draw` makes of each document."""
    values = golden_values("pairs")
    places = np.arange(num_documents * sentences_a_document)
    lengths = 1 + integers(values.integer("longest_sentence"), _SEED, sentences_a_document, places)
    documents = Documents(
        token_ids=np.full(lengths.sum(), 5, dtype=np.int64),
        sentence_lengths=lengths,
        sentence_counts=np.full(num_documents, sentences_a_document, dtype=np.int64),
    )
    rules = PairRules(sequence_length=values.integer("sequence_length"))
    with tempfile.TemporaryDirectory() as folder:
        corpus = _corpus(Path(folder), documents)
        rows = draw(corpus.shards[0], corpus, rules, _SEED, 0)
    ends = np.cumsum(documents.token_counts)
    owners = np.searchsorted(ends, rows[:, 0], side="right")
    tokens = (rows[:, 1] - rows[:, 0]) + (rows[:, 3] - rows[:, 2])
    totals = np.zeros((num_documents, 3), dtype=np.int64)
    np.add.at(totals, owners, np.column_stack([np.ones_like(tokens), rows[:, 4], tokens]))
    return totals


def _corpus(folder: Path, documents: Documents) -> Corpus:
    """A corpus of one shard on disk, since there is no other kind."""
    writer = ShardWriter(folder / "train", 6)
    writer.append(documents)
    writer.flush()
    write_array(folder / COUNTS_FILE, writer.counts)
    Manifest(
        vocabulary_fingerprint="",
        vocab_size=6,
        settings={},
        shards={"train": tuple(writer.shards), "held_out": ()},
        counts_checksum="",
        report=Report(),
    ).write(folder)
    return Corpus.open(folder)
