"""The labels of a file beside those that a checkpoint's head has."""

from __future__ import annotations

import pytest

from bertsmith.tasks.own.labels import difference


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
