"""Predicted tags are answered in a form that their dialect allows, with the entities they hold."""

from __future__ import annotations

import itertools

import pytest

from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks.entities import entities, split_tag
from bertsmith.tasks.tag_scheme import TagScheme

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IOBES = ("O", *(f"{prefix}-PER" for prefix in "BIES"))
DIALECTS = {
    "IOB2": BIO,
    "IO": ("O", "I-PER", "I-LOC"),
    "IOB1, B- of one kind only": ("O", "B-PER", "I-PER", "I-LOC"),
    "IOE": ("O", "I-PER", "E-PER"),
    "IOBES": IOBES,
    "BILOU": ("O", *(f"{prefix}-PER" for prefix in "BILU")),
}


def written(labels: tuple[str, ...], tags: str) -> str:
    return " ".join(TagScheme(labels, is_of_entities=True).well_formed(tags.split()))


@pytest.mark.parametrize(
    ("labels", "predicted", "expected"),
    [
        (BIO, "O I-PER I-PER O", "O B-PER I-PER O"),
        (BIO, "I-PER", "B-PER"),
        (BIO, "B-PER I-LOC I-LOC", "B-PER B-LOC I-LOC"),
        (BIO, "B-PER I-PER B-PER O B-LOC", "B-PER I-PER B-PER O B-LOC"),
        (BIO, "", ""),
        (DIALECTS["IO"], "O I-PER I-PER I-LOC", "O I-PER I-PER I-LOC"),
        (IOBES, "O I-PER I-PER O E-PER", "O B-PER E-PER O S-PER"),
        (DIALECTS["BILOU"], "I-PER O B-PER B-PER L-PER", "U-PER O U-PER B-PER L-PER"),
    ],
)
def test_an_entity_that_no_tag_opened_is_opened(
    labels: tuple[str, ...], predicted: str, expected: str
) -> None:
    assert written(labels, predicted) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_entities_stay_in_labels_of_the_model_in_every_dialect(dialect: str) -> None:
    labels = DIALECTS[dialect]
    scheme = TagScheme(labels, is_of_entities=True)
    for tags in itertools.product(labels, repeat=4):
        found = scheme.well_formed(tags)
        assert entities(found) == entities(tags)
        assert set(found) <= set(labels)
        assert scheme.well_formed(found) == found


def test_with_b_among_the_labels_nothing_goes_on_that_did_not_begin() -> None:
    scheme = TagScheme(BIO, is_of_entities=True)
    for tags in itertools.product(BIO, repeat=5):
        found = scheme.well_formed(tags)
        for before, tag in itertools.pairwise(["O", *found]):
            prefix, kind = split_tag(tag)
            assert prefix != "I" or (before != "O" and split_tag(before)[1] == kind)


def test_tags_of_no_entities_stay_as_they_are() -> None:
    scheme = TagScheme(("NN", "I-LIKE"), is_of_entities=False)
    assert scheme.well_formed(["I-LIKE", "NN"]) == ["I-LIKE", "NN"]


@pytest.mark.parametrize(
    ("words", "is_so"),
    [
        (("서", "울", " ", "간"), True),
        (("a", "\u00a0"), True),
        (("EU", "\u00a0", "rejects"), False),  # a blank that a file of words holds
        (("a", "b"), False),
    ],
)
def test_a_file_is_of_characters_where_it_has_blanks_and_no_longer_word(
    words: tuple[str, ...], is_so: bool
) -> None:
    sentence = TaggedSentence(place="x:1", words=words, tags=("O",) * len(words), document=0)
    assert TagScheme.of([sentence]).is_by_character == is_so
