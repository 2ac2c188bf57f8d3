"""google-research/bert's input assembly and masking, restated plainly on lists.

It was written from the original and shares no code with the rest of the package. Randomness is one
generator's uniform numbers alone, since these are the same in every version of Python.

Source: google-research/bert, run_classifier.py (convert_single_example, _truncate_seq_pair) and
create_pretraining_data.py (create_masked_lm_predictions, create_instances_from_document).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Element = TypeVar("Element")

CLS, SEP, MASK = "[CLS]", "[SEP]", "[MASK]"


def convert_single_example(
    tokens_a: Sequence[Element],
    tokens_b: Sequence[Element] | None,
    max_seq_length: int,
    cls: Element,
    sep: Element,
) -> tuple[list[Element], list[int]]:
    """The tokens of a text or a pair between their special tokens, and the segment of each."""
    tokens_a, tokens_b = list(tokens_a), None if tokens_b is None else list(tokens_b)
    if tokens_b is None:
        tokens_a = tokens_a[: max_seq_length - 2]
    else:
        truncate_seq_pair(tokens_a, tokens_b, max_seq_length - 3)
    tokens = [cls, *tokens_a, sep]
    segment_ids = [0] * len(tokens)
    if tokens_b is not None:
        tokens += [*tokens_b, sep]
        segment_ids += [1] * (len(tokens_b) + 1)
    return tokens, segment_ids


def truncate_seq_pair(
    tokens_a: list[Element], tokens_b: list[Element], max_length: int, coin: Draws | None = None
) -> None:
    """Takes tokens off the longer side, a tie off B: at its end, or at either by a coin's side.

    Fine-tuning cuts at the end; pre-training throws the coin for every token.
    """
    while len(tokens_a) + len(tokens_b) > max_length:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        is_front = coin is not None and coin.random() < 0.5
        longer.pop(0 if is_front else -1)


def num_to_predict(
    num_tokens: int, masked_lm_prob: float = 0.15, max_predictions_per_seq: int = 512
) -> int:
    """How many positions of a sequence are predicted, its special tokens counted."""
    return min(max_predictions_per_seq, max(1, round(num_tokens * masked_lm_prob)))


def create_masked_lm_predictions(
    tokens: Sequence[str],
    vocab_words: Sequence[str],
    draws: Draws,
    *,
    is_whole_word: bool = False,
) -> tuple[list[str], list[int]]:
    """The tokens with masks, and the positions to predict, ascending."""
    candidates: list[list[int]] = []
    for index, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        if is_whole_word and candidates and token.startswith("##"):
            candidates[-1].append(index)
        else:
            candidates.append([index])
    draws.shuffle(candidates)
    output = list(tokens)
    positions: list[int] = []
    wanted = num_to_predict(len(tokens))
    for indexes in candidates:
        if len(positions) >= wanted:
            break
        if len(positions) + len(indexes) > wanted:
            continue
        for index in indexes:
            if draws.random() < 0.8:
                output[index] = MASK
            elif draws.random() >= 0.5:
                output[index] = vocab_words[draws.randint(0, len(vocab_words) - 1)]
            positions.append(index)
    return output, sorted(positions)


def create_instances_from_document(
    documents: Sequence[Sequence[int]], number: int, max_seq_length: int, draws: Draws
) -> list[tuple[int, int, bool]]:
    """Tokens of A, tokens of B, and whether B is random, of every instance of one document.

    A document is the lengths of its sentences.
    """
    document = documents[number]
    max_num_tokens = max_seq_length - 3
    target = max_num_tokens
    if draws.random() < 0.1:
        target = draws.randint(2, max_num_tokens)
    instances: list[tuple[int, int, bool]] = []
    chunk: list[int] = []
    i = 0
    while i < len(document):
        chunk.append(document[i])
        if i == len(document) - 1 or sum(chunk) >= target:
            a_end = draws.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a, b = [0] * sum(chunk[:a_end]), [0] * sum(chunk[a_end:])
            is_random = len(chunk) == 1 or draws.random() < 0.5
            if is_random:
                b = _random_second(documents, number, target - len(a), draws)
                i -= len(chunk) - a_end
            truncate_seq_pair(a, b, max_num_tokens, draws)
            instances.append((len(a), len(b), is_random))
            chunk = []
        i += 1
    return instances


def _random_second(
    documents: Sequence[Sequence[int]], number: int, wanted: int, draws: Draws
) -> list[int]:
    for _ in range(10):
        other = draws.randint(0, len(documents) - 1)
        if other != number:
            break
    b: list[int] = []
    start = draws.randint(0, len(documents[other]) - 1)
    for length in documents[other][start:]:
        b += [0] * length
        if len(b) >= wanted:
            break
    return b


class Draws:
    """Random integers and orders, made of `random()` alone."""

    def __init__(self, seed: int) -> None:
        self._generator = Random(seed)

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return self._generator.random()

    def randint(self, lowest: int, highest: int) -> int:
        """Uniform, both ends included."""
        return lowest + int(self.random() * (highest - lowest + 1))

    def shuffle(self, values: list[Element]) -> None:
        """Any order, as likely as any other."""
        for last in range(len(values) - 1, 0, -1):
            other = self.randint(0, last)
            values[last], values[other] = values[other], values[last]
