"""The paper's experiments as values: they name what the paper names, and share what is equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest

from bertsmith.commands.reproduce_options import ExperimentName, ScaleName
from bertsmith.model.config import BASE, LARGE, TABLE_6
from bertsmith.model.layer_choice import LayerChoice
from bertsmith.recipes import ablations
from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Claim,
    Experiment,
    Joined,
    Perplexity,
    Place,
    Pretrained,
    Row,
    Score,
    Tuned,
    models_of,
)
from bertsmith.recipes.experiments.pieces import UNCASED
from bertsmith.recipes.experiments.scales import SCALES, mini, paper, tiny
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.recipes.finetuning import FEATURE_GRID, GLUE_GRID, PAPER_GRID
from bertsmith.recipes.pretraining import scaled


def test_the_command_line_names_every_experiment_and_scale() -> None:
    assert set(get_args(ExperimentName)) == set(EXPERIMENTS)
    assert set(get_args(ScaleName)) == set(SCALES)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_stands_at_every_scale(name: str, scale: str) -> None:
    experiment = EXPERIMENTS[name](SCALES[scale]())
    assert experiment.name == name
    for _, _, cell in experiment.cells():
        if isinstance(cell, Score):
            assert cell.exam in EXAMS
            assert cell.restarts >= 3 or cell.grid is not None


def test_paper_scale_has_the_papers_sizes_and_values() -> None:
    scale = paper()
    assert (scale.base.model, scale.large, scale.sizes) == (BASE, LARGE, TABLE_6)
    assert scale.base.num_steps == 1_000_000
    assert (scale.restarts, scale.small_restarts) == (5, 5)
    score = scale.score(scale.bert(), "MNLI-m")
    assert (score.grid, score.run.batch_size, score.run.epochs) == (GLUE_GRID, 32, 3.0)
    squad = scale.score(scale.bert(), "SQuAD 1.1")
    assert (squad.run.optimizer.learning_rate, squad.run.batch_size) == (5e-5, 32)
    swag = scale.score(scale.bert(), "SWAG")
    assert (swag.run.optimizer.learning_rate, swag.run.batch_size) == (2e-5, 16)
    assert scale.score(scale.bert(), "SQuAD 2.0").run.batch_size == 48
    # Table 7: "hyperparameters were selected using the Dev set".
    assert scale.score(scale.bert(cased=True), "CoNLL-2003").grid == PAPER_GRID
    assert scale.features(scale.bert(cased=True), "concat-last-four").grid == FEATURE_GRID
    assert [scale.score(scale.bert(), exam).grid for exam in ("SQuAD 1.1", "SWAG")] == [None, None]
    for other in (tiny(), mini()):
        assert other.score(other.bert(), "CoNLL-2003").grid is None
        assert other.features(other.bert(), "concat-last-four").grid is None


def test_table_5_changes_one_thing_at_a_time() -> None:
    base = mini().base
    no_nsp, left = ablations.no_nsp(base), ablations.one_way(base, "left_to_right")
    assert replace(no_nsp, name=base.name, objectives=base.objectives) == base
    assert left.objectives == ("left_to_right_lm",)
    assert left.model.direction == "left_to_right"
    as_before = replace(left, name=base.name, objectives=base.objectives, model=base.model)
    assert as_before == base
    assert no_nsp.form == left.form == "pairs"


def test_table_5s_bilstm_row_stands_on_the_left_to_right_model() -> None:
    rows = {row.title: row for row in EXPERIMENTS["table5"](mini()).rows}
    plain, on_top = rows["LTR & No NSP"].cells[0], rows["+ BiLSTM"].cells[0]
    assert isinstance(plain, Score)
    assert isinstance(on_top, Score)
    assert on_top.model == plain.model
    assert (plain.run.on_top, on_top.run.on_top) == ("nothing", "bilstm")
    assert replace(on_top.run, on_top="nothing", name="", lstm_size=768) == replace(
        plain.run, name="", lstm_size=768
    )


def test_table_8_has_the_papers_six_mixtures() -> None:
    found = []
    for row in EXPERIMENTS["table8"](mini()).rows:
        (model, *_) = models_of(row.cells[0])  # type: ignore[arg-type]
        assert isinstance(model, Pretrained)
        masking = model.run.masking
        same = 1.0 - masking.mask_share - masking.random_share
        found.append((masking.mask_share, round(same, 6), masking.random_share))
    assert found == [
        (0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.8, 0.0, 0.2), (0.8, 0.2, 0.0), (0.0, 0.2, 0.8),
        (0.0, 0.0, 1.0),
    ]  # fmt: skip


def test_tables_share_the_model_of_the_first_row() -> None:
    scale = mini()
    shared = scale.bert()
    for name in ("table1", "table5", "table6", "table7", "table8", "contemporaries"):
        cells = [cell for _, _, cell in EXPERIMENTS[name](scale).cells()]
        assert any(shared in models_of(cell) for cell in cells), name
    last = [row for row in EXPERIMENTS["figure5"](scale).rows if row.group == "Masked LM"][-1]
    assert last.cells[0] is not None
    assert shared in models_of(last.cells[0])


def test_figure_5_reads_checkpoints_that_its_runs_keep() -> None:
    for make in SCALES.values():
        scale = make()
        for _, _, cell in EXPERIMENTS["figure5"](scale).cells():
            (model,) = models_of(cell)
            assert isinstance(model, Pretrained)
            if model.step is not None:
                assert model.step % model.run.keep_every == 0
                assert 0 < model.step < model.run.num_steps


def test_elmos_side_is_two_lstms_trained_apart() -> None:
    rows = EXPERIMENTS["contemporaries"](mini()).rows
    elmo = next(row for row in rows if row.title.startswith("ELMo"))
    cell = elmo.cells[-1]
    assert isinstance(cell, Score)
    assert isinstance(cell.model, Joined)
    left, right = cell.model.left_to_right.run, cell.model.right_to_left.run
    assert (left.model.layer_kind, left.model.num_hidden_layers) == ("lstm", 2)
    assert (left.model.direction, right.model.direction) == ("left_to_right", "right_to_left")
    assert right.objectives == ("right_to_left_lm",)
    assert cell.run.approach == "feature_based"


def test_the_contemporaries_claim_bert_above_gpt_elmo_and_two_transformers() -> None:
    bert, gpt, elmo, shallow = (row.title for row in EXPERIMENTS["contemporaries"](mini()).rows)
    claims = EXPERIMENTS["contemporaries"](mini()).claims
    asked = [(one.row, other.row, one.column) for each in claims for one, other in each.pairs]
    assert asked == [
        *((bert, gpt, column) for column in ("MNLI-m", "SST-2", "NER fine-tuned", "NER features")),
        (bert, elmo, "NER fine-tuned"),
        (bert, elmo, "NER features"),
        (bert, shallow, "NER features"),
    ]
    across = [pair for each in claims for pair in each.pairs if pair[0].column != pair[1].column]
    assert [(one.column, other.column) for one, other in across] == [
        ("NER fine-tuned", "NER features")
    ]
    assert {each.kind for each in claims} == {"higher"}


_KINDS = ("single", "ensemble")


def test_trivia_qa_is_learned_before_squad_and_seven_make_an_ensemble() -> None:
    rows = {row.title: row for row in EXPERIMENTS["table2"](paper()).rows}
    cell = rows["BERT LARGE (ensemble + TriviaQA)"].cells[1]
    assert isinstance(cell, Score)
    assert isinstance(cell.model, Tuned)
    assert (cell.model.learned.exam, cell.taken, cell.restarts) == ("TriviaQA", "ensemble", 7)
    for scale in (tiny(), mini(), paper()):  # an ensemble stands beside the mean of its own members
        of_scale = {row.title: row.cells for row in EXPERIMENTS["table2"](scale).rows}
        for end in (")", " + TriviaQA)"):
            members, together = (of_scale[f"BERT LARGE ({kind}{end}"] for kind in _KINDS)
            as_ensemble = [replace(each, taken="ensemble") for each in members if each]  # type: ignore[call-arg]
            assert as_ensemble == [each for each in together if each]


def test_the_papers_averages_are_of_its_nine_columns() -> None:
    for title, (*figures, average) in the_paper.TABLE_1.items():
        known = [figure for figure in figures if figure is not None]
        assert average is not None
        assert sum(known) / 9 == pytest.approx(average, abs=0.06), title


def test_perplexity_is_of_every_size_in_table_6() -> None:
    rows = EXPERIMENTS["table6"](mini()).rows
    assert all(isinstance(row.cells[0], Perplexity) for row in rows)
    assert rows[3].title == "L4 H256 A4"


def test_a_claim_of_a_cell_that_is_not_there_is_refused() -> None:
    row = Row(title="here", cells=(None,), paper=(1.0,))
    claim = Claim(
        sentence="", pairs=((Place(row="here", column="a"), Place(row="there", column="a")),)
    )
    with pytest.raises(ValueError, match="not in the table"):
        Experiment(name="x", title="", source="", columns=("a",), rows=(row,), claims=(claim,))
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Experiment(
            name="x", title="", source="", columns=("a",), rows=(replace(row, cells=(None, None)),)
        )


def test_larger_models_at_paper_scale_begin_as_the_paper_has_them() -> None:
    (row,) = [row for row in EXPERIMENTS["table4"](paper()).rows if row.title == "BERT LARGE"]
    (model,) = models_of(row.cells[0])  # type: ignore[arg-type]
    assert isinstance(model, Pretrained)
    assert model.run.model == LARGE
    assert LARGE.initializer_range == 0.02
    models = [models_of(row.cells[0])[0] for row in EXPERIMENTS["table6"](paper()).rows]  # type: ignore[arg-type]
    assert [model.run.model for model in models] == list(TABLE_6)  # type: ignore[union-attr]
    assert {config.initializer_range for config in TABLE_6} == {0.02}


def test_narrow_models_begin_with_weights_scaled_to_their_width() -> None:
    for scale in (tiny(), mini()):
        for config in (scale.base.model, scale.large, *scale.sizes):
            assert config == scaled(config)


@pytest.mark.parametrize("name", ["table5", "table7", "figure5", "contemporaries"])
def test_counted_first_embeddings_are_told_where_they_bear_on_the_rows(name: str) -> None:
    for make in SCALES.values():
        scale = make()
        is_told = "counted from neighbours on both sides" in " ".join(
            EXPERIMENTS[name](scale).notes
        )
        assert is_told == scale.base.count_embeddings == (scale.name != "paper")


def test_a_scale_says_how_its_pre_training_differs_from_the_papers() -> None:
    assert "Unlike" not in paper().described()
    for scale in (tiny(), mini()):
        told = scale.described()
        assert "without dropout" in told
        assert "token embeddings counted from neighbours on both sides" in told
        assert "copies of those before" in told


def test_a_scale_says_how_tasks_are_learned_where_the_paper_does_otherwise() -> None:
    short = "SQuAD 1.1, SQuAD 2.0, TriviaQA with doc_stride 64, max_question_tokens 32"
    for scale, rates, size in (
        (mini(), ("0.0001, epochs as many as in the paper", "0.001, epochs 3"), 128),
        (tiny(), ("0.0005, epochs of 1", "0.001, epochs 2"), 64),
    ):
        told = scale.described().split("; ")
        assert told[1:6] == [
            f"fine-tuned at {rates[0]}",
            f"frozen features learned at {rates[1]}",
            f"BiLSTMs have {size} states a direction (the paper's 768)",
            "no sequence has more than 128 tokens",
            short,
        ]
        features, tuned = scale.features(scale.bert(), "last"), scale.score(scale.bert(), "RTE")
        assert (
            f"{features.run.optimizer.learning_rate:g}, epochs {features.run.epochs:g}" in told[2]
        )
        assert f"{tuned.run.optimizer.learning_rate:g}" in told[1]
        assert tuned.run.epochs == (3.0 if scale.name == "mini" else 1.0)
    assert paper().described().count(";") == 2


@pytest.mark.parametrize("name", ["table5", "table6"])
def test_paraphrases_are_told_in_accuracy_where_the_paper_does(name: str) -> None:
    cells = [(c, cell) for _, c, cell in EXPERIMENTS[name](mini()).cells() if c == "MRPC"]
    assert cells
    for _, cell in cells:
        assert isinstance(cell, Score)
        assert cell.metric == "accuracy"
    (told,) = {
        cell.metric
        for _, column, cell in EXPERIMENTS["table1"](mini()).cells()
        if column == "MRPC" and isinstance(cell, Score)
    }
    assert (told or EXAMS["MRPC"].metric) == "f1"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_is_of_cells_that_have_several_seeds(name: str, scale: str) -> None:
    experiment = EXPERIMENTS[name](SCALES[scale]())
    cells = {Place(row=row.title, column=column): cell for row, column, cell in experiment.cells()}
    for claim in experiment.claims:
        pairs = (*claim.pairs, *claim.against)
        if claim.kind == "above_paper":
            for first, second in pairs:
                assert first in cells
                assert experiment.figure_of_paper(second) is not None
        for place in (place for pair in pairs for place in pair):
            if claim.kind in ("ordered", "above_paper"):
                continue
            cell = cells[place]
            assert isinstance(cell, Score), place
            assert (cell.taken, cell.restarts >= 3) == ("mean", True), place


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_are_taken_as_they_are_of_ensembles_and_perplexities_alone(scale: str) -> None:
    asked = []
    for name, make in EXPERIMENTS.items():
        experiment = make(SCALES[scale]())
        cells = {Place(row=r.title, column=c): cell for r, c, cell in experiment.cells()}
        for claim in (each for each in experiment.claims if each.kind == "ordered"):
            for first, _ in claim.pairs:
                cell = cells[first]
                is_one = isinstance(cell, Score) and cell.taken == "ensemble"
                assert is_one or isinstance(cell, Perplexity)
                asked.append(name)
    assert (asked.count("table2"), asked.count("table6")) == (4, 5)


def test_the_papers_own_figures_bear_its_claims_out() -> None:
    for make in EXPERIMENTS.values():
        experiment = make(paper())
        for claim in experiment.claims:
            for first, second in claim.pairs if claim.kind == "ordered" else ():
                ours, theirs = map(experiment.figure_of_paper, (first, second))
                if ours is not None and theirs is not None:
                    is_lower = first.column in experiment.lower_is_better
                    assert (ours < theirs) == is_lower
            for first, second in claim.pairs if claim.kind == "above_paper" else ():
                ours, theirs = map(experiment.figure_of_paper, (first, second))
                if ours is not None and first.column == second.column:
                    assert ours > (theirs or 0.0)
            if claim.kind == "more":
                assert gap(experiment, claim.pairs) > gap(experiment, claim.against)


def gap(experiment: Experiment, pairs: Sequence[tuple[Place, Place]]) -> float:
    """The paper's mean gap."""
    found = [[experiment.figure_of_paper(place) or 0.0 for place in pair] for pair in pairs]
    return sum(first - second for first, second in found) / len(found)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_features_are_of_layers_that_the_model_has(name: str, scale: str) -> None:
    for _, _, cell in EXPERIMENTS[name](SCALES[scale]()).cells():
        if isinstance(cell, Score) and cell.run.approach == "feature_based":
            model = models_of(cell)[0]
            assert isinstance(model, Pretrained)
            assert LayerChoice(name=cell.run.layers).numbers(model.run.model.num_hidden_layers)


def test_figure_5_claims_what_the_paper_does() -> None:
    experiment = EXPERIMENTS["figure5"](mini())
    slower, passes, gains = experiment.claims
    ((first, second),) = slower.pairs
    assert (first.row, second.row) == ("Left-to-Right, 200 steps", "Masked LM, 200 steps")
    assert [(one.row, other.row) for one, other in passes.pairs] == [
        (f"Masked LM, {step} steps", f"Left-to-Right, {step} steps")
        for step in ("600", "1,000", "1,400", "2,000")
    ]
    ((last, half),) = gains.pairs
    assert (last.row, half.row) == ("Masked LM, 2,000 steps", "Masked LM, 1,000 steps")


def test_trivia_qa_is_read_in_part_where_squad_is() -> None:
    for scale in (tiny(), mini()):
        rows = {row.title: row for row in EXPERIMENTS["table2"](scale).rows}
        cell = rows["BERT LARGE (single + TriviaQA)"].cells[1]
        assert isinstance(cell, Score)
        assert isinstance(cell.model, Tuned)
        assert cell.model.learned.most_examples == cell.most_examples is not None


def test_two_sums_of_the_same_layers_are_not_counted_twice() -> None:
    for scale, count in ((paper(), 6), (mini(), 5), (tiny(), 5)):
        table = EXPERIMENTS["table7"](scale)
        best = table.claims[0]
        assert len(best.pairs) == count - 1
        others = {other.row for _, other in best.pairs}
        assert ("Weighted Sum All Layers" in others) == (count == 6)
        told = [note for note in table.notes if "distinct" in note]
        assert len(told) == (count < 6)
        assert all(f"{count} of the 6 choices are distinct" in note for note in told)


def test_trivia_qa_is_told_as_the_paper_made_it() -> None:
    remark = EXAMS["TriviaQA"].remark
    assert "first 400 tokens" in remark
    assert "at least one of the answers" in remark


def test_table_7_has_the_papers_fine_tuned_models_and_elmo() -> None:
    rows = {row.title: row.paper for row in EXPERIMENTS["table7"](paper()).rows}
    assert rows["ELMo"] == (95.7, 92.2)
    assert rows["Fine-tuning, LARGE"] == (96.6, 92.8)
    assert rows["Fine-tuning, BASE"] == (96.4, 92.4)
    (large,) = models_of(
        next(r for r in EXPERIMENTS["table7"](paper()).rows if "LARGE" in r.title).cells[0]  # type: ignore[arg-type]
    )
    assert isinstance(large, Pretrained)
    assert (large.cased, large.run.model) == (True, LARGE)


@pytest.mark.parametrize("name", ["table7", "table8", "contemporaries"])
@pytest.mark.parametrize("scale", SCALES)
def test_named_entities_are_read_cased_at_the_papers_scale_alone_and_that_is_told(
    name: str, scale: str
) -> None:
    experiment = EXPERIMENTS[name](SCALES[scale]())
    is_told = UNCASED in experiment.notes
    cells = [cell for _, _, cell in experiment.cells() if isinstance(cell, Score)]
    entities = [cell for cell in cells if cell.exam == "CoNLL-2003"]
    models = [each for cell in entities for each in models_of(cell)]
    is_cased = any(isinstance(each, Pretrained) and each.cased for each in models)
    assert entities
    assert is_told != is_cased
    if name != "contemporaries":  # whose models are those of the paper's other tasks
        assert is_cased == (scale == "paper")


@pytest.mark.parametrize("scale", SCALES)
def test_squad_2_is_learned_without_trivia_qa(scale: str) -> None:
    for row, _, cell in EXPERIMENTS["table3"](SCALES[scale]()).cells():
        assert isinstance(cell, Score)
        assert isinstance(cell.model, Pretrained), row.title
