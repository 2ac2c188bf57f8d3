"""A scale -> the tables and figures of the paper at that scale, by name.

Adding an experiment is adding a function and its name here.
"""

from __future__ import annotations

from collections.abc import Callable

from bertsmith.recipes.experiments.ablation import figure5, table5, table6, table8
from bertsmith.recipes.experiments.experiment import Experiment
from bertsmith.recipes.experiments.features import contemporaries, table7
from bertsmith.recipes.experiments.results import table1, table2, table3, table4
from bertsmith.recipes.experiments.scales import Scale

EXPERIMENTS: dict[str, Callable[[Scale], Experiment]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "table6": table6,
    "table7": table7,
    "table8": table8,
    "figure5": figure5,
    "contemporaries": contemporaries,
}
