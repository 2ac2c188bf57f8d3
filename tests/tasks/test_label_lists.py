"""A list of labels is short to read, whatever their number, and near twins are told."""

from __future__ import annotations

from bertsmith.tasks.label_lists import alike, few, held_against, listed

MANY = {f"label {number}": 200 - number for number in range(150)}


def test_few_labels_are_listed_whole_in_their_order() -> None:
    assert listed({"b": 1, "a": 3}, 4) == "b 1 (25.0%), a 3 (75.0%)"
    assert few(["a", "b"]) == "a, b"
    assert listed({"a whole text " * 9: 1}, 1) == f"{'a whole text ' * 3}\u2026 1 (100.0%)"


def test_of_many_labels_the_most_frequent_are_listed_and_the_others_counted() -> None:
    told = listed(dict(reversed(MANY.items())), 1_000)
    assert told.startswith("label 0 200 (20.0%), label 1 199 (19.9%), ")
    assert told.endswith("label 19 181 (18.1%), and 130 more, the rarest label 149 51 (5.1%)")
    assert few([*MANY], 2) == "label 0, label 1 and 148 more"


def test_dev_is_held_against_the_labels_that_are_learned() -> None:
    told = held_against(MANY, {"label 3": 2, "label 5": 7, "label 6": 0})
    assert told == "2 of the 150 labels occur, the most frequent label 5: 7 times"
    assert held_against(MANY, {"label 3": 1}).endswith("occurs, the most frequent label 3: 1 time")
    assert held_against(MANY, {}) == "none of the 150 labels occurs"
    assert held_against({"a": 2, "b": 1}, {"c": 4, "a": 1, "d": 2}) == (
        "1 of the 2 labels occurs, the most frequent a: 1 time; 2 labels stand in no example to "
        "train on"
    )
    assert held_against({"a": 2}, {"c": 4}) == (
        "none of the 1 label occurs; 1 label stands in no example to train on"
    )


def test_labels_that_differ_in_capitals_blanks_or_unicode_form_alone_are_told() -> None:
    told = alike(
        ["Good", "bad", "good", "caf\u00e9", "cafe\u0301", "good ", "NEW  YORK", "New York"]
    )
    assert told == (
        "labels that differ in capitals, blanks or Unicode form alone, and are learned as "
        "several: 'Good', 'good' and 'good '; 'NEW  YORK' and 'New York'; 'cafe\u0301' and "
        "'caf\u00e9'"
    )
    assert alike(["good", "bad", "goods"]) == ""
    twins = [name for number in range(5) for name in (f"x{number}", f"X{number}")]
    assert alike(twins).endswith("; 'X2' and 'x2'; and 2 more of this kind")
