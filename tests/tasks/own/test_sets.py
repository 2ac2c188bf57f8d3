"""Two sets: two files as they are, or one divided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.tasks.own.files import OwnFile
from bertsmith.tasks.own.sets import OwnSets, sets_of
from bertsmith.tasks.own.split import SplitConfig

TRAIN = OwnFile(path=Path("train.csv"), examples=("a", "b", "c", "A"))


def _contents(examples: object) -> list[str]:
    assert isinstance(examples, tuple)
    return [each.lower() for each in examples]


def test_without_a_file_to_evaluate_on_a_share_is_held_out_and_told() -> None:
    found = sets_of(TRAIN, None, _contents)
    assert sorted(found.train + found.dev) == ["A", "a", "b", "c"]
    assert len(found.dev) == 1
    assert found.notes[0].startswith("to evaluate on: 1 of the 4 examples of train.csv, the same")


def test_a_share_that_is_far_from_what_was_asked_is_told() -> None:
    file = OwnFile(path=Path("t.csv"), examples=tuple("aaaabbbbccccddddeeee"))
    found = sets_of(file, None, _contents, SplitConfig(share=0.05))
    assert len(found.dev) == 4
    assert "; that is 20.0% and not 5.0%: documents and equal contents stay" in found.notes[0]
    near = sets_of(file, None, _contents, SplitConfig(share=0.2))
    assert len(near.dev) == 4
    assert "that is" not in near.notes[0]


def test_what_stands_in_both_files_is_counted() -> None:
    dev = OwnFile(path=Path("dev.csv"), examples=("B", "x"))
    found = sets_of(TRAIN, dev, _contents)
    assert (found.train, found.dev) == (TRAIN.examples, dev.examples)
    assert found.notes[0].startswith("1 of the 2 examples of dev.csv shares its content")
    assert sets_of(TRAIN, OwnFile(path=Path("d"), examples=("x",)), _contents).notes == ()


def test_what_cannot_be_learned_is_scored_alone() -> None:
    broken = replace(TRAIN, unlearnable={1: "2: why", 3: "4: why"})
    given = sets_of(broken, TRAIN, _contents)
    assert (given.train, given.unlearnable) == (("a", "c"), ("b", "A"))
    assert given.dev == TRAIN.examples
    parted = sets_of(broken, None, _contents)
    assert sorted(parted.train + parted.unlearnable + parted.dev) == ["A", "a", "b", "c"]
    assert not {"b", "A"} & {*parted.train}
    nothing = replace(TRAIN, unlearnable=dict.fromkeys(range(4), "1: why"))
    with pytest.raises(ValueError, match=r"train.csv: nothing to learn in its 4 .*: 1: why"):
        sets_of(nothing, TRAIN, _contents)


def _labelled(*labels: str) -> OwnFile[str]:
    examples = tuple(f"{number} {label}" for number, label in enumerate(labels))
    return OwnFile(path=Path("train.csv"), examples=examples)


def _of_file(file: OwnFile[str], share: float = 0.1) -> OwnSets[str]:
    return sets_of(
        file,
        None,
        contents=list,
        labels=lambda examples: [(each.partition(" ")[2],) for each in examples],
        config=SplitConfig(share=share),
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_share_never_takes_the_last_example_of_a_label_from_training(seed: int) -> None:
    labels = [*"aaaaaaaaabbc"]
    found = _of_file(_labelled(*labels[seed:], *labels[:seed]), 0.5)
    assert {each[-1] for each in found.train} == {*"abc"}
    assert len(found.dev) == 6


def test_a_share_of_one_label_is_told() -> None:
    note = _of_file(_labelled(*"aaaaaaaaab")).notes[1]
    assert note.startswith("all to evaluate on have the label 'a', and there are 2: scores on them")
    assert "--split-seed" in note
    assert "--dev" in note
    assert len(_of_file(_labelled(*"aaaaaaaaaa")).notes) == 1


def test_labels_that_could_not_be_kept_in_training_are_told() -> None:
    note = _of_file(_labelled("a", "b")).notes[1]
    assert note.startswith("1 of the 2 labels stands in no example to train on, and cannot be lear")
