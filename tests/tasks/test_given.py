"""The door of every question: what is no list of texts, or of pairs, is named and refused."""

import re

import numpy as np
import pytest

from bertsmith.tasks import given
from bertsmith.tasks.asked import texts_to_classify, texts_to_tag
from tests.tasks.predictors import SENTENCES, predictor_of

TEXT_QUESTIONS = ("fill_mask", "embed", "pseudo_perplexity")
PAIR_QUESTIONS = ("next_sentence", "similarity")

NO_TEXTS = [
    ("hello", TypeError, "list of texts, found one text, 'hello': write {name}([text])"),
    (None, TypeError, "list of texts, found NoneType None"),
    (7, TypeError, "found int 7"),
    (b"hello", TypeError, "found bytes b'hello'"),
    ({"a", "b"}, TypeError, "list of texts, found set {"),
    ({"a": 1}, TypeError, "list of texts, found dict {'a': 1}"),
    (["a", None], TypeError, "but number 2 is no text (str): found NoneType None"),
    ([("a", "b")], TypeError, "but number 1 is no text (str): found tuple ('a', 'b')"),
    (["half \ud83d"], ValueError, "number 1 holds half a character (\\ud83d) at position 5"),
]
NO_PAIRS = [
    ("hello", TypeError, "pairs of texts, found one text, 'hello': write {name}([(first, second)"),
    (("a", "b"), TypeError, "found 2 texts and no pair: write {name}([(first, second)])"),
    (["ab"], TypeError, "found 1 texts and no pair"),
    ([("a", "b"), "ab"], TypeError, "but number 2 is no pair: found str 'ab'"),
    ([("a", "b", "c")], ValueError, "number 1 holds 3, expected two texts: ('a', 'b', 'c')"),
    ([("a",)], ValueError, "number 1 holds 1, expected two texts"),
    ([("a", "b"), None], TypeError, "but number 2 is no pair: found NoneType None"),
    ([("a", None)], TypeError, "number 1, its second side, is no text (str): found NoneType"),
    (None, TypeError, "pairs of texts, found NoneType None"),
]


@pytest.mark.parametrize("name", TEXT_QUESTIONS)
@pytest.mark.parametrize(("asked", "kind", "told"), NO_TEXTS)
def test_what_is_no_list_of_texts_is_named(name, asked, kind, told):
    with pytest.raises(kind, match=re.escape(told.replace("{name}", name))) as caught:
        getattr(predictor_of(), name)(asked)
    assert str(caught.value).startswith(f"{name} expects a list of texts")


@pytest.mark.parametrize("name", PAIR_QUESTIONS)
@pytest.mark.parametrize(("asked", "kind", "told"), NO_PAIRS)
def test_what_is_no_list_of_pairs_is_named(name, asked, kind, told):
    with pytest.raises(kind, match=re.escape(told.replace("{name}", name))) as caught:
        getattr(predictor_of(), name)(asked)
    assert str(caught.value).startswith(f"{name} expects a list of pairs of texts")


@pytest.mark.parametrize("name", ["classify", "tag"])
@pytest.mark.parametrize(("asked", "told"), [
    (None, "found NoneType None"), ({"a": 1}, "found dict {'a': 1}"), (b"ab", "found bytes b'ab'"),
])  # fmt: skip
def test_questions_of_a_task_are_a_list_of_texts_too(name, asked, told):
    reads = {
        "classify": texts_to_classify,
        "tag": lambda texts: texts_to_tag(texts, by_character=False),
    }
    with pytest.raises(TypeError) as caught:
        reads[name](asked)
    assert str(caught.value) == f"{name} expects a list of texts, {told}"


def test_bytes_are_no_pair_of_texts():
    with pytest.raises(ValueError, match=r"text 1: expected a text or a pair of texts, found b'x'"):
        texts_to_classify([b"x"])


@pytest.mark.parametrize(("asked", "kind"), [("5", "str '5'"), (2.5, "float 2.5")])
def test_so_many_answers_is_a_whole_number(asked, kind):
    predictor = predictor_of()
    for ask in (predictor.fill_mask, predictor.explain):
        with pytest.raises(TypeError, match=f"top_k must be a whole number, found {kind}"):
            ask("[MASK]" if ask == predictor.explain else ["[MASK]"], top_k=asked)
    (answer,) = predictor.fill_mask(["[MASK]"], top_k=np.int64(2))
    assert [len(candidates) for candidates in answer.masks] == [2]


def test_one_word_is_no_list_of_targets():
    with pytest.raises(TypeError, match=r"of words, found one word, 'king': write targets\(\[word"):
        predictor_of().fill_mask(["[MASK]"], targets="king")


@pytest.mark.parametrize("sides", [(["a"],), (None,), ("a", ["b"])])
def test_what_is_looked_into_is_one_text_or_two(sides):
    with pytest.raises(TypeError, match="what look reads is no text"):
        predictor_of().look(*sides)


def test_any_order_of_texts_will_do():
    expected = [text for text in SENTENCES if text]
    as_array = np.array(expected)
    assert given.texts(tuple(expected), "embed") == expected
    assert given.texts(iter(expected), "embed") == expected
    assert given.texts(as_array, "embed") == expected
    assert predictor_of().embed(iter(expected)).shape[0] == len(expected)
    assert given.pairs([["a", "b"]], "similarity") == [("a", "b")]
    assert given.pairs(np.array([["a", "b"]]), "similarity") == [("a", "b")]
    assert given.pairs(iter([]), "similarity") == []


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\x00"])
def test_a_text_without_a_token_is_refused_where_a_token_is_needed(text):
    predictor = predictor_of()
    with pytest.raises(ValueError, match="has no token: nothing in it can be read"):
        predictor.abilities.require_tokens("the dog", text)
    predictor.abilities.require_tokens("the dog", ".")
