"""Masks, held to a plain restatement of the original one sequence at a time, and to its shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data import masking as masking_file
from bertsmith.data.config import Masking
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.randomness import Stream, hash64, integers, uniform

ORDER, FATE, RANDOM_TOKEN = 1, 2, 3
CLS, SEP, MASK, FIRST_WORD = 2, 3, 4, 5
VOCAB_SIZE = 1000
FACTS = VocabularyFacts(
    vocab_size=VOCAB_SIZE,
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    is_continuation=(np.arange(VOCAB_SIZE) > 4) & (np.arange(VOCAB_SIZE) % 3 == 0),
)

TABLE_8 = {  # MASK, SAME, RND in per cent
    (80, 10, 10): Masking(),
    (100, 0, 0): Masking(mask_share=1.0, random_share=0.0),
    (80, 0, 20): Masking(mask_share=0.8, random_share=0.2),
    (80, 20, 0): Masking(mask_share=0.8, random_share=0.0),
    (0, 20, 80): Masking(mask_share=0.0, random_share=0.8),
    (0, 0, 100): Masking(mask_share=0.0, random_share=1.0),
}


def restatement(tokens: list[int], key: int, masking: Masking, seed: int):
    """`create_masked_lm_predictions` on one sequence: masked tokens, positions, original tokens."""
    chosen = choose(tokens, key, masking, seed)
    masked = list(tokens)
    for position in chosen:
        fate = float(uniform(seed, Stream.MASKS, FATE, key, position))
        if fate < masking.mask_share:
            masked[position] = MASK
        elif fate < masking.mask_share + masking.random_share:
            draw = integers(VOCAB_SIZE, seed, Stream.MASKS, RANDOM_TOKEN, key, position)
            masked[position] = int(draw)
    return masked, chosen, [tokens[position] for position in chosen]


def choose(tokens: list[int], key: int, masking: Masking, seed: int) -> list[int]:
    candidates: list[list[int]] = []
    for position, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        if masking.whole_word and candidates and FACTS.is_continuation[token]:
            candidates[-1].append(position)
        else:
            candidates.append([position])
    candidates.sort(key=lambda c: int(hash64(seed, Stream.MASKS, ORDER, key, c[0])))
    number = max(1, round(len(tokens) * masking.rate))
    number = min(number, masking.max_predictions or number)
    chosen: list[int] = []
    for positions in candidates:
        if len(chosen) + len(positions) <= number:
            chosen += positions
    return sorted(chosen)


def sequences(num: int, seed: int, longest: int = 128) -> list[list[int]]:
    """`[CLS] A [SEP] B [SEP]` of 5 to `longest` tokens."""
    made = []
    for n, length in enumerate((5 + integers(longest - 4, seed, 1, np.arange(num))).tolist()):
        words = (FIRST_WORD + integers(VOCAB_SIZE - 5, seed, 2, n, np.arange(length - 3))).tolist()
        cut = 1 + int(integers(length - 4, seed, 3, n))
        made.append([CLS, *words[:cut], SEP, *words[cut:], SEP])
    return made


def mask_all(examples: list[list[int]], masking: Masking, seed: int = 0, first_key: int = 0):
    token_ids = np.array([token for example in examples for token in example], dtype=np.int32)
    lengths = np.array([len(example) for example in examples], dtype=np.int32)
    keys = np.arange(first_key, first_key + len(examples))
    return token_ids, lengths, mask(token_ids, lengths, keys, masking, FACTS, seed)


@settings(max_examples=80)
@given(
    rate=st.sampled_from([0.02, 0.15, 0.4, 1.0]),
    whole_word=st.booleans(),
    max_predictions=st.sampled_from([None, 1, 7]),
    seed=st.integers(0, 2**40),
)
def test_masks_equal_the_plain_restatement(rate, whole_word, max_predictions, seed) -> None:
    masking = Masking(rate=rate, whole_word=whole_word, max_predictions=max_predictions)
    examples = sequences(6, seed, longest=60)
    _, lengths, (masked, rows, targets) = mask_all(examples, masking, seed)
    starts = np.cumsum(lengths) - lengths
    plain = [restatement(example, key, masking, seed) for key, example in enumerate(examples)]
    assert masked.tolist() == [token for tokens, _, _ in plain for token in tokens]
    assert rows.tolist() == [
        int(start) + p for start, (_, chosen, _) in zip(starts, plain, strict=True) for p in chosen
    ]
    assert targets.tolist() == [token for _, _, originals in plain for token in originals]


@pytest.mark.parametrize(
    ("length", "number"), [(5, 1), (10, 2), (30, 4), (50, 8), (128, 19), (512, 77)]
)
def test_a_sequence_predicts_exactly_its_rounded_share(length: int, number: int) -> None:
    # Halves go to the even number, as Python's round does: 0.15 * 30 = 4.5 -> 4, 7.5 -> 8.
    examples = [[CLS, *range(FIRST_WORD, FIRST_WORD + length - 2), SEP]] * 20
    _, _, (_, rows, _) = mask_all(examples, Masking())
    assert np.bincount(rows // length).tolist() == [number] * 20


def test_the_original_limits_of_20_and_77_never_bind() -> None:
    for length, limit in ((128, 20), (512, 77)):
        examples = sequences(40, 5, longest=length)
        _, _, free = mask_all(examples, Masking())
        _, _, limited = mask_all(examples, Masking(max_predictions=limit))
        assert all(np.array_equal(a, b) for a, b in zip(free, limited, strict=True))


def test_special_tokens_are_never_chosen_even_at_rate_one() -> None:
    token_ids, _, (_, rows, targets) = mask_all(sequences(50, 1), Masking(rate=1.0))
    assert np.array_equal(rows, np.flatnonzero((token_ids != CLS) & (token_ids != SEP)))
    assert np.array_equal(targets, token_ids[rows])


@pytest.mark.parametrize(("shares", "masking"), TABLE_8.items(), ids=str)
def test_the_six_rows_of_table_8_have_their_shares(shares, masking: Masking) -> None:
    token_ids, _, (masked, rows, targets) = mask_all(sequences(2000, 3), masking)
    seen = masked[rows]
    found = {
        "mask": (seen == MASK).mean(),
        "same": (seen == targets).mean(),
        "random": ((seen != MASK) & (seen != targets)).mean(),
    }
    # A random token is by chance [MASK] or the original with probability 1/1000 each; else five
    # standard deviations of a share over M > 15,000 positions.
    bound = 5 * 0.5 / np.sqrt(len(rows)) + 2 / VOCAB_SIZE
    assert len(rows) > 15_000
    for name, expected in zip(("mask", "same", "random"), shares, strict=True):
        assert abs(found[name] - expected / 100) < bound
        if expected == 0:
            assert found[name] < 5 / VOCAB_SIZE
    untouched = np.ones(len(token_ids), dtype=bool)
    untouched[rows] = False
    assert np.array_equal(masked[untouched], token_ids[untouched])


def test_random_tokens_are_uniform_over_the_whole_vocabulary() -> None:
    masking = Masking(rate=1.0, mask_share=0.0, random_share=1.0)
    _, _, (masked, rows, _) = mask_all(sequences(2000, 4), masking)
    counts = np.bincount(masked[rows], minlength=VOCAB_SIZE)
    expected = len(rows) / VOCAB_SIZE
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # Mean 999, standard deviation sqrt(2 * 999) = 45: five of them. Special ids are drawn too.
    assert abs(chi_square - 999) < 5 * 45
    assert counts.min() > 0


def test_every_position_is_chosen_equally_often() -> None:
    length, num = 128, 4000
    examples = [[CLS, *range(FIRST_WORD, FIRST_WORD + length - 2), SEP]] * num
    _, _, (_, rows, _) = mask_all(examples, Masking())
    counts = np.bincount(rows % length, minlength=length)[1:-1]
    share = 19 / 126
    assert np.abs(counts / num - share).max() < 5 * np.sqrt(share * (1 - share) / num)


def test_my_dog_is_hairy_becomes_mask_apple_or_stays_and_always_predicts_hairy() -> None:
    my, dog, is_, hairy = range(10, 14)
    sentence = [CLS, my, dog, is_, hairy, SEP]
    _, _, (masked, rows, targets) = mask_all([sentence] * 3000, Masking())
    at_hairy = rows % len(sentence) == 4
    assert set(targets[at_hairy].tolist()) == {hairy}
    seen = masked[rows[at_hairy]]
    shares = [(seen == MASK).mean(), (seen == hairy).mean()]
    assert np.allclose(shares, [0.8, 0.1], atol=5 * 0.4 / np.sqrt(at_hairy.sum()))


def test_whole_words_are_chosen_whole_but_fated_token_by_token() -> None:
    masking = Masking(whole_word=True)
    token_ids, lengths, (masked, rows, _) = mask_all(sequences(1500, 6), masking)
    words = np.cumsum(~FACTS.is_continuation[token_ids])
    words[np.isin(token_ids, (CLS, SEP))] = -1
    chosen = np.zeros(len(token_ids), dtype=bool)
    chosen[rows] = True
    # Without the words that a [SEP] cuts off (see _begins_word), no word is half chosen.
    inside = np.flatnonzero(FACTS.is_continuation[token_ids] & (np.roll(words, 1) == words))
    assert np.array_equal(chosen[inside], chosen[inside - 1])
    numbers = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[rows], minlength=len(lengths))
    limits = np.maximum(1, np.rint(lengths * 0.15))
    assert (numbers <= limits).all()
    assert (numbers == limits).mean() > 0.8  # words too long for the rest are passed over
    long_words = [r for r in inside if chosen[r]]
    is_mask = masked[long_words] == MASK
    before = masked[np.array(long_words) - 1] == MASK
    both, expected = (is_mask & before).mean(), 0.8**2
    assert abs(both - expected) < 5 * 0.5 / np.sqrt(len(long_words))


def test_an_example_has_its_masks_in_any_company() -> None:
    examples = sequences(20, 8)
    _, lengths, (masked, _, _) = mask_all(examples, Masking())
    _, _, (alone, _, _) = mask_all(examples[7:8], Masking(), first_key=7)
    start = int(lengths[:7].sum())
    assert np.array_equal(masked[start : start + lengths[7]], alone)
    _, _, (other, _, _) = mask_all(examples[7:8], Masking(), first_key=8)
    assert not np.array_equal(other, alone)


@pytest.mark.parametrize(
    ("field", "value"),
    [("rate", 0.0), ("rate", 1.5), ("mask_share", 0.95), ("random_share", -0.1),
     ("max_predictions", 0), ("fixed_copies", -1)],
)  # fmt: skip
def test_impossible_shares_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Masking(**{field: value})


@pytest.mark.parametrize("num_sequences", [1, 3, 256, 257, 70_000])
def test_units_are_sorted_as_lexsort_does_and_equal_draws_keep_their_order(num_sequences) -> None:
    rng = np.random.default_rng(0)
    sequences = np.sort(rng.integers(num_sequences, size=3000))
    draws = rng.integers(2**64, size=3000, dtype=np.uint64)
    draws[rng.integers(3000, size=1500)] = draws[0]
    found = masking_file._by_sequence_and_draw(sequences, draws, num_sequences)
    assert np.array_equal(found, np.lexsort((draws, sequences)))
