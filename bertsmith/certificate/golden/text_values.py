"""Fixed texts -> their golden tokens; numbered tokens -> their golden sequences.

The vocabulary holds nearly every character of the texts, so that nothing hides behind `[UNK]`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from bertsmith.certificate.golden.pretraining_data import convert_single_example
from bertsmith.certificate.golden.texts import ORDINARY, RARE
from bertsmith.certificate.golden.tokenization import CASED, UNCASED, tokenize

_WORDS = (
    "my dog is cute he likes play ##ing un ##aff ##able 어제 늦게 피곤 ##해 보이 기계 ##식 mask"
)
_CLS, _SEP = 2, 3
# Tokens of A, tokens of B, most tokens of the sequence.
_PAIRS = (
    (4, None, 16), (20, None, 16), (14, None, 16), (4, 3, 16), (20, 3, 16), (3, 20, 16),
    (20, 20, 16), (20, 20, 17), (9, 5, 16), (5, 9, 16), (7, 7, 16), (1, 1, 5),
)  # fmt: skip


def tokenization_values() -> dict[str, object]:
    """What `tokenization.json` holds."""
    vocabulary = _vocabulary(
        [*ORDINARY.values(), *(text for some in RARE.values() for text in some)]
    )
    known = frozenset(vocabulary)

    def tokens(text: str) -> dict[str, object]:
        uncased, cased = (tokenize(text, known, rules) for rules in (UNCASED, CASED))
        return {"text": text, "uncased": uncased, "cased": cased}

    return {
        "vocabulary": vocabulary,
        "ordinary": {name: tokens(text) for name, text in ORDINARY.items()},
        "rare": {rule: [tokens(text) for text in texts] for rule, texts in RARE.items()},
    }


def input_values() -> dict[str, object]:
    """What `inputs.json` holds: tokens of A are numbers from 10 up, those of B from 100 up."""
    cases = []
    for num_a, num_b, limit in _PAIRS:
        a = list(range(10, 10 + num_a))
        b = None if num_b is None else list(range(100, 100 + num_b))
        ids, segments = convert_single_example(a, b, limit, _CLS, _SEP)
        cases.append(
            {"tokens_a": num_a, "tokens_b": num_b, "limit": limit, "ids": ids, "segments": segments}
        )
    return {"cls": _CLS, "sep": _SEP, "cases": cases}


def _vocabulary(texts: Sequence[str]) -> list[str]:
    """Special tokens, some words, and every character but emoji, alone and after ##."""
    found = {
        character
        for text in texts
        for form in (text, text.lower(), unicodedata.normalize("NFD", text.lower()))
        for character in form
        if not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf", "So")
    }
    characters = sorted(found - {"\ufffd"})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return [*special, *_WORDS.split(), *characters, *(f"##{each}" for each in characters)]
