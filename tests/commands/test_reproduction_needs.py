"""What experiments need is counted once, and what is there is not counted."""

from __future__ import annotations

import pytest

from bertsmith.commands.reproduction.needs import Needs
from bertsmith.recipes.experiments.experiment import (
    Average,
    Model,
    Perplexity,
    Pretrained,
    Score,
)
from bertsmith.recipes.experiments.scales import mini
from bertsmith.recipes.experiments.tables import EXPERIMENTS

SCALE = mini()


def needs(*names: str) -> Needs:
    return Needs.of([EXPERIMENTS[name](SCALE) for name in names])


def test_an_ensembles_members_are_the_single_runs_and_trivia_qa_comes_first_once() -> None:
    runs = {score.exam: 0 for score in needs("table2").scores}
    for score in needs("table2").scores:
        runs[score.exam] += score.restarts
    # BASE has three seeds, LARGE seven of its own and seven after TriviaQA.
    assert runs == {"SQuAD 1.1": 3 + 7 + 7, "TriviaQA": 1}
    assert needs("table2").num_finetunings == 18


def test_both_metrics_and_both_mnlis_cost_once() -> None:
    assert len(needs("table3").scores) == 1
    assert len([score for score in needs("table1").scores if score.exam == "MNLI-m"]) == 2


def test_what_two_tables_share_is_counted_once() -> None:
    apart = needs("table1").num_finetunings + needs("table5").num_finetunings
    assert needs("table1", "table5").num_finetunings < apart
    assert set(needs("table1", "table5").runs) == {*needs("table1").runs, *needs("table5").runs}


def test_what_is_there_is_left_out() -> None:
    def is_there(part: Model | Score | Perplexity) -> bool:
        return part == SCALE.bert() or (isinstance(part, Score) and part.model == SCALE.bert())

    left = Needs.of([EXPERIMENTS["table4"](SCALE)], is_there=is_there)
    (model,) = left.runs.values()
    assert isinstance(model, Pretrained)
    assert model.run.model.num_hidden_layers == SCALE.large.num_hidden_layers
    assert len(left.scores) == 1
    assert left.flops(8_000, lambda score: (10, 5)) < needs("table4").flops(
        8_000, lambda score: (10, 5)
    )


def test_what_a_finished_cell_begins_with_is_not_needed_for_it() -> None:
    table = EXPERIMENTS["table6"](SCALE)
    cells = [cell for _, _, cell in table.cells()]
    for number, rest in ((1, cells[1:]), (len(cells), [])):
        left = Needs.of([table], is_there=lambda part, there=cells[:number]: part in there)
        models = {cell.model.run.name for cell in rest if not isinstance(cell, Average)}
        assert set(left.runs) == models
    # The perplexity alone is missing: its model is, and nothing that begins with it.
    perplexity = next(cell for cell in cells if isinstance(cell, Perplexity))
    left = Needs.of([table], is_there=lambda part: part in cells and part != perplexity)
    assert (list(left.runs.values()), left.scores) == ([perplexity.model], [])


def test_reading_dev_costs_too() -> None:
    def flops(num_dev: int) -> float:
        return needs("table4").flops(8_000, lambda score: (10, num_dev))

    # A run learns from its examples three times over in three epochs, and reads Dev twice.
    assert flops(45) - flops(0) == pytest.approx(flops(0) - no_runs(), rel=1e-9)


def no_runs() -> float:
    """What pre-training alone is."""
    return needs("table4").flops(8_000, lambda score: (0, 0))
