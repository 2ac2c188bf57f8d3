"""One sequence masked many times, documents cut into pairs: golden counts of what comes out.

Ours draws other random numbers than the original, so what is held against these counts are
distributions. What does not depend on a draw, how many positions are predicted, is exact.
"""

from __future__ import annotations

import numpy as np

from bertsmith.certificate.golden.formula import rounded
from bertsmith.certificate.golden.pretraining_data import (
    CLS,
    MASK,
    SEP,
    Draws,
    create_instances_from_document,
    create_masked_lm_predictions,
    num_to_predict,
)

_SEED = 20181011  # the day the paper appeared
_MASKED_SEQUENCES = 3000
_LONGEST_SENTENCE, _SEQUENCE_LENGTH = 39, 128
_DOCUMENTS = {1: 4000, 2: 4000, 3: 3000, 10: 6000, 80: 500}
"""Sentences of a document -> how many such documents."""


def masking_values() -> dict[str, object]:
    """What `masking.json` holds."""
    lengths = range(3, 513)
    return {
        "first_length": lengths[0],
        "num_to_predict": [num_to_predict(length) for length in lengths],
        "num_to_predict_of_20_at_most": [
            num_to_predict(length, max_predictions_per_seq=20) for length in lengths
        ],
        "vocabulary": _vocabulary(),
        "sequence": _sequence(),
        "times": _MASKED_SEQUENCES,
        "per_token": _counts(is_whole_word=False),
        "whole_word": _counts(is_whole_word=True),
    }


def pair_values() -> dict[str, object]:
    """What `pairs.json` holds: of each size of document, means and deviations over documents."""
    draws = Draws(_SEED)
    found = {}
    for size, num_documents in _DOCUMENTS.items():
        documents = [
            [draws.randint(1, _LONGEST_SENTENCE) for _ in range(size)] for _ in range(num_documents)
        ]
        totals = []
        for number in range(num_documents):
            rows = create_instances_from_document(documents, number, _SEQUENCE_LENGTH, draws)
            tokens = sum(a + b for a, b, _ in rows)
            totals.append((len(rows), sum(is_random for _, _, is_random in rows), tokens))
        found[str(size)] = {
            "documents": num_documents,
            "mean": rounded(np.mean(totals, axis=0)),
            "deviation": rounded(np.std(totals, axis=0)),
        }
    return {
        "sequence_length": _SEQUENCE_LENGTH,
        "longest_sentence": _LONGEST_SENTENCE,
        "counted": ["pairs", "random pairs", "tokens"],
        "by_sentences_a_document": found,
    }


def _counts(*, is_whole_word: bool) -> dict[str, object]:
    draws, vocabulary, tokens = Draws(_SEED), _vocabulary(), _sequence()
    fates = {"mask": 0, "kept": 0, "random": 0}
    positions, numbers = [0] * len(tokens), [0] * len(tokens)
    randoms = [0] * len(vocabulary)
    for _ in range(_MASKED_SEQUENCES):
        output, chosen = create_masked_lm_predictions(
            tokens, vocabulary, draws, is_whole_word=is_whole_word
        )
        numbers[len(chosen)] += 1
        for position in chosen:
            positions[position] += 1
            found, original = output[position], tokens[position]
            kind = "mask" if found == MASK else "kept" if found == original else "random"
            fates[kind] += 1
            if kind == "random":
                randoms[vocabulary.index(found)] += 1
    return {
        "fates": fates,
        "positions": positions,
        "predictions_a_sequence": numbers,
        "random_tokens": randoms,
    }


def _vocabulary() -> list[str]:
    pieces = [f"w{n}" for n in range(20)] + [f"##p{n}" for n in range(10)]
    return ["[PAD]", "[UNK]", CLS, SEP, MASK, *pieces]


def _sequence() -> list[str]:
    """A pair of 40 tokens: words of one to four pieces."""
    tokens: list[str] = []
    for word in range(15):
        tokens.append(f"w{word}")
        tokens += [f"##p{(word + piece) % 10}" for piece in range(word % 4)]
    return [CLS, *tokens[:20], SEP, *tokens[20:37], SEP]
