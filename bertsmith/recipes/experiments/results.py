"""Tables 1 to 4: what BERT reaches on GLUE, SQuAD and SWAG.

Source: Devlin et al. 2018, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Claim,
    Experiment,
    Pretrained,
    Row,
    Score,
    Tuned,
)
from bertsmith.recipes.experiments.pieces import (
    ON_DEV,
    ensemble_of_seven,
    higher,
    large,
    only_the_paper,
    pair,
)
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.experiments.the_paper import Figures

AVERAGE = "average"
EM_AND_F1 = ("EM", "F1")


def table1(scale: Scale) -> Experiment:
    """GLUE: BASE and LARGE on nine sets.

    `bertsmith reproduce table1 --scale paper --text TEXT --data DATA`
    """
    columns = (*the_paper.GLUE, AVERAGE)

    def row(title: str, model: Pretrained) -> Row:
        cells: list[Cell] = []
        for exam in the_paper.GLUE:
            if exam == "MNLI-mm":
                cells.append(replace(scale.score(model, "MNLI-m"), measured_on=exam))
            else:
                cells.append(scale.score(model, exam))
        average = Average(columns=the_paper.GLUE)
        return Row(title=title, cells=(*cells, average), paper=the_paper.TABLE_1[title])

    others = [name for name in the_paper.TABLE_1 if not name.startswith("BERT")]
    return Experiment(
        name="table1",
        title="GLUE",
        source="Table 1",
        columns=columns,
        rows=(
            *(only_the_paper(name, the_paper.TABLE_1, columns) for name in others),
            row("BERT BASE", scale.bert()),
            row("BERT LARGE", large(scale)),
        ),
        claims=(
            higher("LARGE is above BASE on every set", "BERT LARGE", "BERT BASE", the_paper.GLUE),
        ),
        notes=(
            ON_DEV,
            "Where restarts differ, on the small sets, the paper tells LARGE's best on Dev, and "
            "ours is the mean.",
        ),
    )


def table2(scale: Scale) -> Experiment:
    """SQuAD 1.1: single models, an ensemble of seven, TriviaQA learned first.

    `bertsmith reproduce table2 --scale paper --text TEXT --data DATA`
    """
    exam, single, more = "SQuAD 1.1", "BERT LARGE (single)", "BERT LARGE (single + TriviaQA)"
    first = replace(scale.score(large(scale), "TriviaQA"), restarts=1)
    ours = {
        "BERT BASE (single)": scale.score(scale.bert(), exam),
        single: scale.score(large(scale), exam),
        more: scale.score(Tuned(learned=first), exam),
    }
    ours["BERT LARGE (ensemble)"] = ensemble_of_seven(ours[single])
    ours["BERT LARGE (ensemble + TriviaQA)"] = ensemble_of_seven(ours[more])
    return Experiment(
        name="table2",
        title="SQuAD 1.1",
        source="Table 2",
        columns=EM_AND_F1,
        rows=tuple(
            Row(title=title, cells=_em_and_f1(ours[title]), paper=figures)
            for title, figures in the_paper.TABLE_2.items()
        ),
        claims=(
            higher("LARGE is above BASE", single, "BERT BASE (single)", ("F1",)),
            Claim(
                sentence="TriviaQA adds little: the paper loses 0.1 to 0.4 points without it",
                pairs=(pair(more, single, "F1"),),
                kind="close",
                margin=1.0,
            ),
        ),
        notes=(
            "An ensemble averages seven fine-tunings of one pre-trained model; the paper's seven "
            "also come from different pre-training checkpoints.",
            f"TriviaQA: {EXAMS['TriviaQA'].remark}.",
            _on_test(the_paper.TABLE_2_TEST),
        ),
    )


def table3(scale: Scale) -> Experiment:
    """SQuAD 2.0.

    `bertsmith reproduce table3 --scale paper --text TEXT --data DATA`
    """
    title = "BERT LARGE (single)"
    return Experiment(
        name="table3",
        title="SQuAD 2.0",
        source="Table 3",
        columns=EM_AND_F1,
        rows=(
            only_the_paper("Human", the_paper.TABLE_3, EM_AND_F1),
            Row(
                title=title,
                cells=_em_and_f1(scale.score(large(scale), "SQuAD 2.0")),
                paper=the_paper.TABLE_3[title],
            ),
        ),
        notes=(_on_test(the_paper.TABLE_3_TEST),),
    )


def table4(scale: Scale) -> Experiment:
    """SWAG.

    `bertsmith reproduce table4 --scale paper --text TEXT --data DATA`
    """
    models = {"BERT BASE": scale.bert(), "BERT LARGE": large(scale)}
    return Experiment(
        name="table4",
        title="SWAG",
        source="Table 4",
        columns=("Dev",),
        rows=tuple(
            Row(
                title=title,
                cells=(scale.score(models[title], "SWAG") if title in models else None,),
                paper=figures,
            )
            for title, figures in the_paper.TABLE_4.items()
        ),
        claims=(higher("LARGE is above BASE", "BERT LARGE", "BERT BASE", ("Dev",)),),
        notes=("Figures are of Dev. On the test set the paper has: BERT LARGE 86.3.",),
    )


def _em_and_f1(score: Score) -> tuple[Score, Score]:
    """Exact match and F1 of the same runs."""
    return replace(score, metric="exact"), score


def _on_test(figures: Mapping[str, Figures]) -> str:
    """What the paper alone has measured, in a sentence."""
    told = "; ".join(f"{title} {exact}/{f1}" for title, (exact, f1) in figures.items())
    return f"Figures are of Dev. On the test set the paper has: {told}."
