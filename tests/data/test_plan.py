"""Steps: pure functions of (seed, step), faithful to the rows they are made of."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from bertsmith.batch import PretrainBatch
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.epochs import Epochs
from bertsmith.data.pairs import PairRules
from bertsmith.data.plan import Plan, StepRules
from tests.data.corpora import write_corpus
from tests.data.in_memory import InMemoryCorpus, InMemoryTokenizer, articles

CLS, SEP, MASK = 2, 3, 4
RULES = StepRules(batch_size=16, pairs=PairRules(sequence_length=64), masking=Masking(), seed=3)


def small_corpus(shards: int = 5) -> InMemoryCorpus:
    return InMemoryCorpus([articles(15, 10, 200 + n, longest=20) for n in range(shards)])


def same(first: PretrainBatch, second: PretrainBatch) -> bool:
    """True when two batches are equal to the bit."""
    arrays = [
        (getattr(first.packed, f.name), getattr(second.packed, f.name))
        for f in fields(first.packed)
    ]
    arrays += [(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)[1:]]
    return all(
        np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in arrays
    )


def unmasked(batch: PretrainBatch) -> np.ndarray:
    token_ids = batch.packed.token_ids.copy()
    token_ids[batch.target_rows] = batch.target_ids
    return token_ids


def sequences_of(batch: PretrainBatch, token_ids: np.ndarray) -> list[tuple[int, ...]]:
    parts = np.split(token_ids, batch.packed.starts[1:])
    return [tuple(part.tolist()) for part in parts]


def test_a_step_is_the_same_in_any_order_from_any_plan() -> None:
    corpus = small_corpus()
    forwards, backwards = Plan(corpus, RULES), Plan(corpus, RULES)
    steps = [forwards.step(number) for number in range(40)]
    for number in reversed(range(40)):
        assert same(steps[number], backwards.step(number))
    travelled = pickle.loads(pickle.dumps(forwards))
    assert same(steps[17], travelled.step(17))


def test_a_step_holds_its_rows_tokens_segments_and_labels() -> None:
    corpus = small_corpus()
    plan = Plan(corpus, RULES)
    rows = Epochs(corpus, RULES.pairs, 0, RULES.seed).rows(16 * 7, 16)
    batch = plan.step(7)
    for row, sequence in zip(rows, sequences_of(batch, unmasked(batch)), strict=True):
        a, b = (corpus.read(row[[at]], row[[at + 1]])[0].tolist() for at in (0, 2))
        assert sequence == (CLS, *a, SEP, *b, SEP)
    lengths_b = rows[:, 3] - rows[:, 2] + 1
    starts_b = batch.packed.starts + batch.packed.lengths - lengths_b
    for start, start_b, length_b in zip(batch.packed.starts, starts_b, lengths_b, strict=True):
        assert not batch.packed.segment_ids[start:start_b].any()
        assert batch.packed.segment_ids[start_b : start_b + length_b].all()
    assert batch.next_labels is not None
    assert batch.next_labels.dtype == np.int8
    assert np.array_equal(batch.next_labels, rows[:, 4])
    assert np.array_equal(batch.packed.keys, np.arange(16))
    assert (batch.step_targets, batch.step_sequences) == (len(batch.target_rows), 16)


def test_random_next_is_labelled_one() -> None:
    # Documents of one sentence: every B is random.
    corpus = InMemoryCorpus([[[30]] * 50])
    labels = Plan(corpus, RULES).step(0).next_labels
    assert labels is not None
    assert labels.tolist() == [1] * 16


def test_no_sequence_is_longer_than_the_rules_and_most_are_full() -> None:
    corpus = InMemoryCorpus([articles(20, 60, 1, longest=30)])
    for length in (8, 128, 512):
        plan = Plan(corpus, replace(RULES, pairs=PairRules(sequence_length=length)))
        lengths = np.concatenate([plan.step(number).packed.lengths for number in range(5)])
        assert lengths.max() == length
        assert lengths.min() >= 5


def test_a_batch_size_cuts_the_same_stream_of_sequences() -> None:
    corpus = small_corpus()
    whole = Plan(corpus, RULES).step(1)
    later = Plan(corpus, replace(RULES, batch_size=4, first_sequence=12))
    parts = [later.step(number) for number in range(1, 5)]
    tokens = np.concatenate([part.packed.token_ids for part in parts])
    assert np.array_equal(whole.packed.token_ids, tokens)
    targets = np.concatenate([part.target_ids for part in parts])
    assert np.array_equal(whole.target_ids, targets)


def test_a_batch_may_be_larger_than_an_epoch() -> None:
    corpus = InMemoryCorpus([[[5, 6], [7, 8, 9]]])
    plan = Plan(corpus, replace(RULES, batch_size=100))
    assert plan.rows_per_epoch < 10
    batch = plan.step(3)
    assert batch.packed.num_sequences == 100
    assert plan.epochs(3) == pytest.approx(300 / plan.rows_per_epoch)


def test_masks_are_fresh_every_epoch_and_static_with_fixed_copies() -> None:
    corpus = small_corpus(2)
    pairs = PairRules(sequence_length=64, form="one_segment", short_probability=0.0)
    fresh = epoch_sequences(corpus, replace(RULES, pairs=pairs, objectives=("masked_lm",)), 2)
    # One segment of the full target has no draws but truncation's: the same texts come again.
    assert len(set(fresh[0]) & set(fresh[1])) < 0.2 * len(fresh[0])
    fixed = epoch_sequences(corpus, replace(RULES, masking=Masking(fixed_copies=2)), 5)
    assert sorted(fixed[0]) == sorted(fixed[2]) == sorted(fixed[4])
    assert sorted(fixed[1]) == sorted(fixed[3])
    assert sorted(fixed[0]) != sorted(fixed[1])
    assert fixed[0] != fixed[2]


def epoch_sequences(corpus, rules: StepRules, count: int) -> list[list[tuple[int, ...]]]:
    """The masked sequences of the first epochs, in the order they come."""
    size = Plan(corpus, rules).rows_per_epoch
    plan = Plan(corpus, replace(rules, batch_size=size))
    batches = [plan.step(number) for number in range(count)]
    return [sequences_of(batch, batch.packed.token_ids) for batch in batches]


def test_left_to_right_predicts_the_next_token_on_unmasked_text() -> None:
    plan = Plan(small_corpus(), replace(RULES, objectives=("left_to_right_lm",)))
    batch = plan.step(2)
    packed = batch.packed
    last_rows = packed.starts + packed.lengths - 1
    assert np.array_equal(batch.target_rows, np.setdiff1d(np.arange(packed.num_tokens), last_rows))
    assert np.array_equal(batch.target_ids, packed.token_ids[batch.target_rows + 1])
    assert MASK not in packed.token_ids
    assert batch.next_labels is None
    assert batch.step_targets == packed.num_tokens - packed.num_sequences


def test_right_to_left_predicts_the_token_before() -> None:
    plan = Plan(small_corpus(), replace(RULES, objectives=("right_to_left_lm",)))
    batch = plan.step(2)
    packed = batch.packed
    assert np.array_equal(
        batch.target_rows, np.setdiff1d(np.arange(packed.num_tokens), packed.starts)
    )
    assert np.array_equal(batch.target_ids, packed.token_ids[batch.target_rows - 1])


def test_inputs_without_next_sentence_keep_two_segments_or_one() -> None:
    corpus = small_corpus()
    for form, segments in (("consecutive_pair", {0, 1}), ("one_segment", {0})):
        pairs = PairRules(sequence_length=64, form=form)
        batch = Plan(corpus, replace(RULES, pairs=pairs, objectives=("masked_lm",))).step(0)
        assert set(batch.packed.segment_ids.tolist()) == segments
        assert batch.next_labels is None
        assert batch.packed.lengths.max() == 64


def test_micro_batches_keep_the_step_s_divisors() -> None:
    batch = Plan(small_corpus(), RULES).step(0)
    parts = batch.split(4)
    assert {part.step_targets for part in parts} == {len(batch.target_rows)}
    assert sum(len(part.target_rows) for part in parts) == batch.step_targets


def test_a_plan_over_files_equals_the_plan_over_memory(tmp_path, monkeypatch) -> None:
    here = small_corpus(1)
    documents, token = [], 0
    for lengths in articles(15, 10, 200, longest=20):
        ends = token + np.cumsum(lengths)
        ranges = zip(ends - lengths, ends, strict=True)
        documents.append([here.read(np.array([s]), np.array([e]))[0].tolist() for s, e in ranges])
        token = int(ends[-1])
    there = Corpus.open(write_corpus(tmp_path, {"train": documents}))
    monkeypatch.setattr(Corpus, "tokenizer", lambda self: InMemoryTokenizer(vocab_size=1000))
    from_files, from_memory = Plan(there, RULES), Plan(here, RULES)
    for number in (0, 5, 11):
        assert same(from_files.step(number), from_memory.step(number))


def test_the_summary_tells_what_the_steps_then_show() -> None:
    corpus = InMemoryCorpus([articles(150, 20, 5, longest=25)])
    plan = Plan(corpus, replace(RULES, batch_size=64))
    summary = plan.describe()
    assert summary.rows_per_epoch == plan.rows_per_epoch
    batches = [plan.step(number) for number in range(30)]
    lengths = np.concatenate([batch.packed.lengths for batch in batches])
    labels = np.concatenate([batch.next_labels for batch in batches])
    # 1,920 sequences drawn here and about 1,200 measured: five deviations of each difference.
    assert abs(lengths.mean() - summary.tokens_per_sequence) < 5 * lengths.std() / np.sqrt(700)
    assert abs(labels.mean() - summary.random_share) < 5 * 0.5 / np.sqrt(700)
    assert summary.warnings == ()


def test_one_sentence_documents_are_counted_in_a_warning() -> None:
    corpus = InMemoryCorpus([[[20]] * 90 + [[10, 10]] * 10])
    (warning,) = Plan(corpus, RULES).describe().warnings
    assert "90 of 100 documents" in warning
    assert Plan(corpus, replace(RULES, objectives=("masked_lm",))).describe().warnings == ()


def test_one_document_with_next_sentence_is_refused_and_without_is_not() -> None:
    corpus = InMemoryCorpus([[[10] * 40]])
    with pytest.raises(ValueError, match="next_sentence needs at least 2 documents, found 1"):
        Plan(corpus, RULES)
    Plan(corpus, replace(RULES, objectives=("masked_lm",))).step(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": ("masked_ml",)}, "masked_ml"),
        ({"objectives": ("next_sentence",)}, "exactly one of"),
        ({"objectives": ("masked_lm", "left_to_right_lm")}, "exactly one of"),
        ({"objectives": ("masked_lm", "masked_lm")}, "exactly one of"),
        ({"pairs": PairRules(form="one_segment")}, "found `one_segment`"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"first_sequence": -1}, "first_sequence at least 0"),
    ],
)
def test_contradictions_are_refused_before_anything_is_drawn(changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RULES, **changes)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative, found -1"):
        Plan(small_corpus(), RULES).step(-1)
