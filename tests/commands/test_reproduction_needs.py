"""What experiments need is counted once, and what is there is not counted."""

from __future__ import annotations

from dataclasses import replace

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
from bertsmith.runs.experiments.flops import scoring_flops

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
    assert flops_of(left, (10, 5)) < flops_of(needs("table4"), (10, 5))


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
        return flops_of(needs("table4"), (10, num_dev))

    # A run learns from its examples three times over in three epochs, and reads Dev twice.
    assert flops(45) - flops(0) == pytest.approx(flops(0) - no_runs(), rel=1e-9)


def no_runs() -> float:
    """What pre-training alone is."""
    return flops_of(needs("table4"), (0, 0))


def flops_of(all_needs: Needs, sizes: tuple[int, int]) -> float:
    return sum(flops for _, flops in all_needs.flops(8_000, lambda score: sizes))


def test_each_cells_multiplications_are_of_its_own_model() -> None:
    tables = needs("table6", "contemporaries")
    found = list(tables.flops(8_000, lambda score: (10, 5)))[len(tables.runs) :]
    assert len(found) == len(tables.scores)
    assert {run.model.layer_kind for run, _ in found} == {"transformer", "lstm"}
    assert len({run.model.num_hidden_layers for run, _ in found}) > 3


def test_short_windows_of_a_passage_overlap_and_each_has_the_question() -> None:
    def tokens(**changes: object) -> float:
        score = replace(SCALE.score(SCALE.bert(), "SQuAD 1.1"), **changes)  # type: ignore[arg-type]
        return scoring_flops(score, num_examples=1, num_dev=0)

    whole = tokens(max_tokens=None, options={})
    short = tokens(max_tokens=128, options={"doc_stride": 64})
    wide = tokens(max_tokens=128, options={"doc_stride": 113})
    # 159 tokens of a passage: two windows of 113, by 64 or by 113, beside 15 tokens of a question.
    assert whole < wide < short
    assert short / wide == pytest.approx((159 + 113 - 64 + 30) / (159 + 30), rel=1e-3)
    # What is no passage is cut.
    cut = replace(SCALE.score(SCALE.bert(), "RTE"), max_tokens=32)
    assert scoring_flops(cut, num_examples=1, num_dev=0) < 0.5 * scoring_flops(
        replace(cut, max_tokens=None), num_examples=1, num_dev=0
    )
