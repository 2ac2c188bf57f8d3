from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bertsmith.commands.predict_task_options import AskTask


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": Path("a.xlsx")}, "--out writes a .jsonl or a .csv file"),
        ({"squad": Path("a.json")}, "--squad needs --out"),
        ({"squad": Path("a.json"), "out": Path("o"), "texts": ("a b",)},
         "'a b' is taken for one more: leave it out; if it is another model, `bertsmith evaluate m "
         "'a b' --squad a.json --out o` writes what all of them answer as one"),
        ({"squad": Path("a.json"), "out": Path("o"), "keep": ("a",)}, "leave --file, --columns"),
        ({"jsonl": True, "csv": True}, "--jsonl and --csv: one of them is printed"),
        ({"jsonl": True, "out": Path("a.csv")}, "--jsonl: --out writes a file"),
        ({"null_threshold": math.inf}, "--null-threshold must be a finite number, found inf: 1e6"),
        ({"null_threshold": math.nan}, "--null-threshold must be a finite number, found nan"),
        ({"top_k": 0}, "--top-k must be at least 1"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        AskTask(model="m", **options)
