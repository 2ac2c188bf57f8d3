"""Tables 1 to 4: what BERT reaches on GLUE, SQuAD and SWAG.

Source: Devlin et al. 2018, section 4.
"""

from __future__ import annotations

from dataclasses import replace

from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Experiment,
    Pretrained,
    Row,
    Tuned,
)
from bertsmith.recipes.experiments.pieces import (
    ON_DEV,
    ensemble_of_seven,
    higher,
    large,
    only_the_paper,
)
from bertsmith.recipes.experiments.scales import Scale

AVERAGE = "average"


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
        notes=(ON_DEV,),
    )


def table2(scale: Scale) -> Experiment:
    """SQuAD 1.1: single models, an ensemble of seven, TriviaQA learned first.

    `bertsmith reproduce table2 --scale paper --text TEXT --data DATA`
    """
    exam = "SQuAD 1.1"
    before = scale.score(large(scale), "TriviaQA")
    trivia = Tuned(
        model=large(scale),
        exam="TriviaQA",
        run=before.run,
        max_tokens=before.max_tokens,
        options=before.options,
    )
    single = {
        "BERT BASE (single)": scale.score(scale.bert(), exam),
        "BERT LARGE (single)": scale.score(large(scale), exam),
        "BERT LARGE (single + TriviaQA)": scale.score(trivia, exam),
    }
    ours = {
        **single,
        "BERT LARGE (ensemble)": ensemble_of_seven(single["BERT LARGE (single)"]),
        "BERT LARGE (ensemble + TriviaQA)": ensemble_of_seven(
            single["BERT LARGE (single + TriviaQA)"]
        ),
    }
    return Experiment(
        name="table2",
        title="SQuAD 1.1",
        source="Table 2",
        columns=("EM", "F1"),
        rows=tuple(
            Row(
                title=title,
                cells=(
                    (None, None)
                    if title not in ours
                    else (replace(ours[title], metric="exact"), ours[title])
                ),
                paper=figures,
            )
            for title, figures in the_paper.TABLE_2.items()
        ),
        claims=(
            higher("LARGE is above BASE", "BERT LARGE (single)", "BERT BASE (single)", ("F1",)),
            higher(
                "An ensemble is above its members",
                "BERT LARGE (ensemble)",
                "BERT LARGE (single)",
                ("F1",),
            ),
        ),
        notes=(
            "An ensemble averages seven fine-tunings of one pre-trained model; the paper's seven "
            "also come from different pre-training checkpoints.",
        ),
    )


def table3(scale: Scale) -> Experiment:
    """SQuAD 2.0.

    `bertsmith reproduce table3 --scale paper --text TEXT --data DATA`
    """
    score = scale.score(large(scale), "SQuAD 2.0")
    return Experiment(
        name="table3",
        title="SQuAD 2.0",
        source="Table 3",
        columns=("EM", "F1"),
        rows=(
            only_the_paper("Human", the_paper.TABLE_3, ("EM", "F1")),
            Row(
                title="BERT LARGE (single)",
                cells=(replace(score, metric="exact"), score),
                paper=the_paper.TABLE_3["BERT LARGE (single)"],
            ),
        ),
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
    )
