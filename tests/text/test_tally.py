import unicodedata

import numpy as np
import pytest

from bertsmith.text.config import TokenizerConfig
from bertsmith.text.rules import SPECIAL_TOKENS, UnicodeForm
from bertsmith.text.tally import USUAL_SHARE, TokenTally
from bertsmith.text.tokenizer import Tokenizer

JAMO = ["\u1112", "##\u1161", "##\u11ab"]
ENTRIES = [*SPECIAL_TOKENS, "the", "dog", *JAMO]


def tally(*texts: str, strips: bool = True) -> TokenTally:
    tokenizer = Tokenizer(ENTRIES, TokenizerConfig(strip_accents=strips))
    found = TokenTally(tokenizer)
    found.add(np.array(tokenizer.encode(text).ids) for text in texts)
    return found


def test_words_that_the_vocabulary_lacks_are_told_special_tokens_aside() -> None:
    (note,) = tally("the dog", "the cat", "").notes("that were read")
    assert note.startswith("1 of the 4 tokens that were read are [UNK], words that the vocabulary")


def test_syllables_that_fall_apart_are_told_where_accents_are_stripped() -> None:
    (note,) = tally("the 한").notes("here")
    assert note.startswith("3 of the 4 tokens here are jamo, into which strip_accents takes")
    # Where they stay whole, letters of the alphabet are words like any other.
    (note,) = tally("the 한", strips=False).notes("here")
    assert note.startswith("1 of the 2 tokens here are [UNK]")


@pytest.mark.parametrize(("num_known", "is_told"), [(98, True), (99, False)])
def test_a_rare_unknown_word_is_not_told(num_known: int, is_told: bool) -> None:
    assert USUAL_SHARE == 0.01
    found = tally("cat", *["dog"] * num_known)
    assert bool(list(found.notes(""))) == is_told


def test_nothing_is_told_of_nothing() -> None:
    assert list(tally().notes("")) == list(tally("").notes("")) == []


def test_what_is_no_row_of_the_vocabulary_is_not_counted() -> None:
    found = TokenTally(Tokenizer(ENTRIES))
    found.add([np.array([ENTRIES.index("[UNK]"), len(ENTRIES), -1])])
    (note,) = found.notes("here")
    assert note.startswith("1 of the 1 tokens here are [UNK]")


DECOMPOSED = unicodedata.normalize("NFD", "한")


def looked_at(*texts: str, entries: tuple[str, ...] = ("한",), **rules: object) -> TokenTally:
    config = TokenizerConfig(**{"strip_accents": False, **rules})  # type: ignore[arg-type]
    found = TokenTally(Tokenizer([*SPECIAL_TOKENS, "dog", *entries], config))
    found.look_at(texts)
    return found


def test_decomposed_hangul_is_named_and_no_other_model_advised() -> None:
    tokenizer = Tokenizer([*SPECIAL_TOKENS, "dog", "한"], TokenizerConfig(strip_accents=False))
    found = TokenTally(tokenizer)
    texts = ["dog", DECOMPOSED]
    found.look_at(texts)
    found.add(np.array(tokenizer.encode(text).ids) for text in texts)
    why, unknown = found.notes("that were read")
    assert why == found.decomposed("that were read")
    assert why.startswith("1 of the 2 texts that were read hold Hangul that is decomposed into")
    assert "learned with --unicode-form NFC, or compose the texts first, by `python" in why
    assert unknown.startswith("1 of the 2 tokens that were read are [UNK]")
    assert "take a model" not in unknown


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "NFKD"])
def test_decomposed_hangul_is_no_fault_where_a_form_was_chosen(form: UnicodeForm) -> None:
    assert looked_at(DECOMPOSED, unicode_form=form).decomposed("") == ""


def test_composing_is_not_advised_where_it_would_change_nothing() -> None:
    assert looked_at(DECOMPOSED).decomposed("")
    assert looked_at("한", "dog").decomposed("") == ""
    assert looked_at(DECOMPOSED, entries=("cat",)).decomposed("") == ""
    assert looked_at(DECOMPOSED, strip_accents=True).decomposed("") == ""
    assert looked_at(DECOMPOSED, *["dog"] * 99).decomposed("") == ""
    assert looked_at().decomposed("") == ""
