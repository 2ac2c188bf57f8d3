"""The names of class labels, as the `datasets` library writes them into Parquet's metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.reading.hub_features import class_names
from tests.tasks.own.written import hub_parquet_at, lines_at

LABEL = {"names": ["O", "B-PER"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ({"tags": LABEL}, ("O", "B-PER")),
        ({"tags": {"feature": LABEL, "_type": "List"}}, ("O", "B-PER")),
        ({"tags": [LABEL]}, ("O", "B-PER")),
        ({"tags": {"dtype": "int64", "_type": "Value"}}, ()),
        ({"other": LABEL}, ()),
        (None, ()),
    ],
)
def test_names_of_a_column_are_found(
    tmp_path: Path, features: object, names: tuple[str, ...]
) -> None:
    path = hub_parquet_at(tmp_path / "a.parquet", features, [{"tags": 1}])
    assert class_names(path, "tags") == names


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        class_names(lines_at(tmp_path / "a.parquet", "no"), "tags")
