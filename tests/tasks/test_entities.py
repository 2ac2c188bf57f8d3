"""Entities are those conlleval finds, in every dialect and for tags that no dialect allows."""

from __future__ import annotations

import pytest

from bertsmith.tasks.entities import as_iob2, entities, entity_scores, split_tag

Found = list[tuple[int, int, str]]

# Worked out by hand from conlleval's rules for the start and the end of a chunk.
CASES: list[tuple[str, Found]] = [
    ("O O", []),
    ("I-PER I-PER O I-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
    ("B-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
    ("I-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
    ("B-PER I-LOC I-LOC", [(0, 1, "PER"), (1, 3, "LOC")]),
    ("O I-ORG B-ORG", [(1, 2, "ORG"), (2, 3, "ORG")]),
    ("B-PER E-PER S-LOC S-LOC", [(0, 2, "PER"), (2, 3, "LOC"), (3, 4, "LOC")]),
    ("B-PER I-PER E-PER I-PER", [(0, 3, "PER"), (3, 4, "PER")]),
    ("E-PER E-PER", [(0, 1, "PER"), (1, 2, "PER")]),
    ("B-A-B I-A-B", [(0, 2, "A-B")]),
]


@pytest.mark.parametrize(("tags", "expected"), CASES)
def test_entities_are_conllevals(tags: str, expected: Found) -> None:
    assert [tuple(entity) for entity in entities(tags.split())] == expected


@pytest.mark.parametrize(("tags", "expected"), CASES)
def test_iob2_holds_the_same_entities(tags: str, expected: Found) -> None:
    written = as_iob2(tags.split())
    assert [tuple(entity) for entity in entities(written)] == expected
    assert sum(tag.startswith("B-") for tag in written) == len(expected)


def test_scores_are_sums_over_sentences_not_means() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-LOC"], ["B-LOC"]]
    scores = entity_scores(predicted, gold)
    every = scores[""]
    assert (every.num_gold, every.num_predicted, every.num_right) == (3, 4, 2)
    assert (every.precision, every.recall) == (2 / 4, 2 / 3)
    assert every.f1 == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    assert {kind: score.num_right for kind, score in scores.items()} == {
        "": 2, "LOC": 1, "ORG": 0, "PER": 1,
    }  # fmt: skip
    assert scores["ORG"].recall == 0.0


def test_a_half_right_entity_is_wrong() -> None:
    assert entity_scores([["B-PER", "O"]], [["B-PER", "I-PER"]])[""].f1 == 0.0


@pytest.mark.parametrize("tag", ["PER", "X-PER", "B-", "B", ""])
def test_what_is_no_tag_is_refused_by_name(tag: str) -> None:
    with pytest.raises(ValueError, match=f"{tag!r} is no tag"):
        split_tag(tag)


def test_sentences_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="1 predicted tags for 2 words"):
        entity_scores([["O"]], [["O", "O"]])
