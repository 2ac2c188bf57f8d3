"""How labels are spelt, what is told of it; the labels of a file beside those of a checkpoint."""

from __future__ import annotations

import pytest

from bertsmith.tasks.own.labels import Spelling, difference


@pytest.mark.parametrize(
    ("found", "learned", "told"),
    [
        ("no yes", "yes no", ""),
        ("no yes", "LABEL_0 LABEL_1", ""),
        ("a b c", "LABEL_0 LABEL_1", "3 labels in the file, 2 without names in the checkpoint"),
        ("a b c", "a b d", "only in the file: c; only in the checkpoint: d"),
        ("a b", "a b d", "only in the checkpoint: d"),
    ],
)
def test_labels_that_differ_are_told_by_side(found: str, learned: str, told: str) -> None:
    assert difference(found.split(), learned.split()) == told


def test_a_label_that_stands_twice_in_one_field_counts_once_and_is_told() -> None:
    spelling = Spelling()
    fields = ["x", "x|y| x|x", "y|y"]
    found = [spelling.labels(each, f"a:{n}", "|") for n, each in enumerate(fields)]
    assert found == [("x",), ("x", "y"), ("y",)]
    assert spelling.notes() == (
        "2 rows name a label more than once, the first 'x' at a:1: each counts once",
    )


def test_blanks_around_labels_are_left_out_and_told() -> None:
    spelling = Spelling()
    found = [spelling.label(each, f"a:{n}") for n, each in enumerate(["bad", "bad ", " good"])]
    assert found == ["bad", "bad", "good"]
    assert spelling.notes() == (
        "blanks around 2 labels are left out, the first at a:1: 'bad ' is 'bad'",
    )


def test_blanks_around_a_single_label_are_told() -> None:
    spelling = Spelling()
    spelling.label("bad ", "a:1")
    assert spelling.notes()[0].startswith("blanks around 1 label are left out")


def test_of_many_names_of_numbers_the_first_are_told() -> None:
    (note,) = Spelling([f"l{number}" for number in range(150)]).notes()
    assert note.endswith(", l18, l19 and 130 more")
