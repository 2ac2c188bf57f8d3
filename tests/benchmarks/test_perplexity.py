from __future__ import annotations

import math
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ngrams import count
from benchmarks.perplexity import (
    MASKING,
    baselines_of,
    examples,
    having_seen,
    hidden_tokens,
    judge,
    measure,
    table,
)
from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.corpus.store import Corpus
from bertsmith.runs.evaluation import evaluate
from tests.benchmarks.small import small_corpus, small_predictor
from tests.checkpoints.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
SIZE, MASK = TOKENIZER.vocab_size, TOKENIZER.mask_id
SYSTEMS = ("unigram", "trigram", "trigram_both_sides")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return small_corpus(tmp_path / "corpus")


def test_every_baseline_gives_the_whole_vocabulary_probabilities_that_sum_to_one(
    corpus: Path,
) -> None:
    hidden = hidden_tokens(examples(small_predictor(), corpus, 64), SIZE)
    assert {MASK, TOKENIZER.cls_id, TOKENIZER.sep_id} <= set(hidden.windows.flatten().tolist())
    baselines = baselines_of(Corpus.open(corpus), hidden.windows)
    for number, seen in enumerate(hidden.seen.tolist()):
        for probabilities in baselines.probabilities(number).values():
            for known in (probabilities, having_seen(probabilities, seen)):
                assert known.shape == (SIZE,)
                assert known.sum() == pytest.approx(1.0, abs=1e-12)
                assert (known > 0).all()  # of [UNK] and of what the text lacks too


def test_a_hidden_neighbour_is_not_seen(corpus: Path) -> None:
    of, a = (TOKENIZER.encode(word, add_special_tokens=False).ids[0] for word in ("of", "a"))
    windows = np.array(
        [[a, MASK, MASK, a], [MASK, of, MASK, of], [TOKENIZER.cls_id, of, TOKENIZER.sep_id, SIZE]]
    )
    found = [baselines_of(Corpus.open(corpus), windows).probabilities(row) for row in range(3)]
    for system in SYSTEMS[1:]:
        np.testing.assert_allclose(found[0][system], found[0]["unigram"], rtol=1e-12)
        np.testing.assert_allclose(found[1][system], found[2][system], rtol=1e-12)
    assert not np.allclose(found[1]["trigram"], found[1]["unigram"])


def test_windows_are_of_the_stream_with_its_masks_and_end_with_the_sequence() -> None:
    batch = _batch(token_ids=[2, 7, MASK, 9, 3, 2, MASK, 5, 3], lengths=[5, 4], rows=[2, 3, 6, 7])
    hidden = hidden_tokens([batch, batch], SIZE)
    expected = [[2, 7, 9, 3], [7, MASK, 3, SIZE], [SIZE, 2, 5, 3], [2, MASK, 3, SIZE]]
    assert hidden.windows.tolist() == expected * 2
    assert hidden.seen.tolist() == [MASK, 9, MASK, 5] * 2
    assert hidden.truth.tolist() == [10, 11, 12, 13] * 2


def test_the_token_in_the_place_is_weighed_by_how_masks_are_drawn() -> None:
    prior = np.array([0.5, 0.3, 0.15, 0.05])
    drawn = 0.1 / 4
    for seen in range(4):
        both = [p * (drawn + (0.1 if token == seen else 0.0)) for token, p in enumerate(prior)]
        np.testing.assert_allclose(having_seen(prior, seen), np.array(both) / sum(both))
    assert (MASKING.mask_share, MASKING.random_share) == (0.8, 0.1)


def test_documents_are_counted_across_their_sentences(corpus: Path) -> None:
    train = Corpus.open(corpus)
    documents = [
        np.concatenate(train.document_sentences(number)).tolist()
        for number in range(train.num_documents)
    ]
    plain = Counter(chain.from_iterable(map(pairwise, documents)))
    windows = np.array([[SIZE, token, SIZE, SIZE] for token in sorted(set(documents[0]))])
    counted = count(train, windows, frozenset(), "document")
    for row, (_, left, *_) in enumerate(windows.tolist()):
        token_ids, times = counted.counts[-1,].of(counted.rows[-1,][row])
        found = dict(zip(token_ids.tolist(), times.tolist(), strict=True))
        assert found == {second: n for (first, second), n in plain.items() if first == left}


def test_all_systems_are_measured_on_the_examples_of_the_models_evaluation(corpus: Path) -> None:
    predictor = small_predictor()
    row = measure(predictor, corpus, 16)
    batches = examples(predictor, corpus, 16)
    evaluation = evaluate(predictor.model, batches)
    assert (row.targets, row.sequences) == (evaluation.targets, evaluation.sequences)
    assert row.all["model"].loss == evaluation.loss
    assert set(row.all) == set(row.only_masked) == {"model", *SYSTEMS}
    hidden = hidden_tokens(batches, SIZE)
    losses, _ = judge(baselines_of(Corpus.open(corpus), hidden.windows), hidden, MASK)
    assert row.all["trigram"].perplexity == pytest.approx(math.exp(losses["trigram"].mean()))
    assert 0 < row.masked == (hidden.seen == MASK).sum() < row.targets
    assert f"| model | {row.all['model'].perplexity:.1f} (" in table(row)[2]


def _batch(token_ids: list[int], lengths: list[int], rows: list[int]) -> PretrainBatch:
    ids = np.array(token_ids, dtype=np.int32)
    return PretrainBatch(
        packed=PackedBatch(
            token_ids=ids,
            segment_ids=np.zeros_like(ids),
            lengths=np.array(lengths, dtype=np.int32),
            keys=np.arange(len(lengths)),
        ),
        target_rows=np.array(rows, dtype=np.int64),
        target_ids=np.arange(10, 10 + len(rows), dtype=np.int32),
        next_labels=None,
        step_targets=len(rows),
        step_sequences=len(lengths),
    )
