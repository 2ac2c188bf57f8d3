"""Tables 1 to 4: what BERT reaches on GLUE, SQuAD and SWAG.

Source: Devlin et al. 2018, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Claim,
    Experiment,
    Place,
    Pretrained,
    Row,
    Score,
    Tuned,
)
from bertsmith.recipes.experiments.pieces import (
    OF_OTHERS,
    ON_DEV,
    ONLY_DEV,
    above_paper,
    as_one,
    gaps,
    higher,
    large,
    only_the_paper,
    pair,
    seven,
)
from bertsmith.recipes.experiments.scales import Scale

AVERAGE = "average"
FEW = ("CoLA", "STS-B", "MRPC", "RTE")
MANY = ("MNLI-m", "QQP", "QNLI", "SST-2")
"""GLUE's sets of fewer than 10,000 examples, and the others; of MNLI's two, which are of the same
runs, one."""


def table1(scale: Scale) -> Experiment:
    """GLUE: BASE and LARGE on nine sets.

    Source: Table 1, section 4.1.
    Command: `bertsmith reproduce table1 --scale SCALE --text TEXT --data DATA`
    tiny: 3 min, of which 46 and 43 s are the pre-trainings and 2 to 10 s a cell; planned 0.7 GiB;
        both guess: average 35.3 and 34.0, MNLI 32.5 and 30.0, CoLA 0.0, RTE 49.1.
    mini: planned 5 h 35 min of one thread; planned 1.5 GiB; BASE has MNLI 47.4 and 47.2, QNLI 56.8,
        SST-2 79.5, MRPC 79.0, LARGE MNLI 48.2 and 47.9, SST-2 79.9, MRPC 78.4, of runs that other
        tables have too, QQP, CoLA, STS-B, RTE and LARGE's QNLI not measured.
    paper: planned 4,240 days on two cores (several GPUs: README.md); planned 11 GiB with
        `--accumulation 32`, 136 GB of disk; not measured (the paper's: average 79.6 and 82.1).
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
            Claim(
                sentence="especially where there is little to learn from",
                pairs=gaps("BERT LARGE", "BERT BASE", FEW),
                against=gaps("BERT LARGE", "BERT BASE", MANY),
                kind="more",
            ),
            *(
                above_paper(
                    f"{title} is above OpenAI GPT on average (the paper: by {gain})",
                    Place(row=title, column=AVERAGE),
                    Place(row="OpenAI GPT", column=AVERAGE),
                )
                for title, gain in (("BERT BASE", 4.5), ("BERT LARGE", 7.0))
            ),
            above_paper(
                "and LARGE on MNLI (the paper: by 4.6)",
                Place(row="BERT LARGE", column="MNLI-m"),
                Place(row="OpenAI GPT", column="MNLI-m"),
            ),
            Claim(
                sentence="Both are above all systems before on every set",
                pairs=tuple(
                    (Place(row=title, column=exam), _best_before(others, exam))
                    for title in ("BERT BASE", "BERT LARGE")
                    for exam in the_paper.GLUE
                ),
                kind="above_paper",
            ),
        ),
        notes=(
            ON_DEV,
            OF_OTHERS,
            "Where restarts differ, on the small sets, the paper tells LARGE's best on Dev, and "
            "ours is the mean.",
        ),
    )


def _best_before(titles: Sequence[str], exam: str) -> Place:
    """Of Table 1's other systems, the figure that is to be beaten on one set."""
    number = the_paper.GLUE.index(exam)
    figures = {title: the_paper.TABLE_1[title][number] or 0.0 for title in titles}
    return Place(row=max(titles, key=figures.__getitem__), column=exam)


def table2(scale: Scale) -> Experiment:
    """SQuAD 1.1: single models, an ensemble of seven, TriviaQA learned first.

    Source: Table 2, section 4.2.
    Command: `bertsmith reproduce table2 --scale SCALE --text TEXT --data DATA`
    tiny: 282 s for 4 of 6 parts; planned 0.8 GiB; BASE has F1 8.0, LARGE 8.2, seven together 8.5.
    mini: planned 6 h 58 min of one thread, without TriviaQA; planned 1.5 GiB; BASE has F1 11.0,
        exact match 4.7, LARGE and the ensembles not measured.
    paper: planned 4,120 days on two cores (several GPUs: README.md); planned 11 GiB with
        `--accumulation 32`, 66 GB of disk; not measured (the paper's: F1 88.5 and 90.9, of the
        ensemble 91.8, with TriviaQA first 92.2).
    """
    exam, single, more = "SQuAD 1.1", "BERT LARGE (single)", "BERT LARGE (single + TriviaQA)"
    first = replace(scale.score(large(scale), "TriviaQA"), restarts=1)
    ours = {
        "BERT BASE (single)": scale.score(scale.bert(), exam),
        single: seven(scale.score(large(scale), exam)),
        more: seven(scale.score(Tuned(learned=first), exam)),
    }
    ours["BERT LARGE (ensemble)"] = as_one(ours[single])
    ours["BERT LARGE (ensemble + TriviaQA)"] = as_one(ours[more])
    return Experiment(
        name="table2",
        title="SQuAD 1.1",
        source="Table 2",
        columns=the_paper.DEV_AND_TEST,
        rows=tuple(
            Row(title=title, cells=_em_and_f1(ours.get(title)), paper=figures)
            for title, figures in the_paper.TABLE_2.items()
        ),
        claims=(
            higher("LARGE is above BASE", single, "BERT BASE (single)", ("F1",)),
            *(
                Claim(
                    sentence=sentence,
                    pairs=gaps(ensemble, one, ("EM", "F1")),
                    kind="ordered",
                )
                for sentence, ensemble, one in (
                    ("Seven models together are above one", "BERT LARGE (ensemble)", single),
                    ("and with TriviaQA first too", "BERT LARGE (ensemble + TriviaQA)", more),
                )
            ),
            *(
                above_paper(
                    f"{title.removeprefix('BERT ')} is above the best ensemble before",
                    Place(row=title, column="F1"),
                    Place(row="nlnet (ensemble)", column="test F1"),
                )
                for title in (more, "BERT LARGE (ensemble + TriviaQA)")
            ),
            Claim(
                sentence="TriviaQA adds little: the paper loses 0.1 to 0.4 points without it",
                pairs=(pair(more, single, "F1"),),
                kind="close",
                margin=1.0,
            ),
        ),
        notes=(
            "An ensemble averages seven fine-tunings of one pre-trained model; the paper's seven "
            "also come from different pre-training checkpoints. It is one, beside the mean of its "
            "members.",
            OF_OTHERS,
            f"TriviaQA: {EXAMS['TriviaQA'].remark}.",
            ONLY_DEV,
        ),
    )


def table3(scale: Scale) -> Experiment:
    """SQuAD 2.0.

    Source: Table 3, section 4.3.
    Command: `bertsmith reproduce table3 --scale SCALE --text TEXT --data DATA`
    tiny: not measured; not measured; not measured (its training set is not at hand).
    mini: not measured; not measured; not measured (its training set is not at hand).
    paper: planned 3,160 days on two cores (several GPUs: README.md); planned 11 GiB with
        `--accumulation 32`, 38 GB of disk; not measured (the paper's: F1 81.9).
    """
    ours = {"BERT LARGE (single)": scale.score(large(scale), "SQuAD 2.0")}
    return Experiment(
        name="table3",
        title="SQuAD 2.0",
        source="Table 3",
        columns=the_paper.DEV_AND_TEST,
        rows=tuple(
            Row(title=title, cells=_em_and_f1(ours.get(title)), paper=figures)
            for title, figures in the_paper.TABLE_3.items()
        ),
        claims=(
            above_paper(
                "LARGE is above the best system before (the paper: by 5.1)",
                Place(row="BERT LARGE (single)", column="F1"),
                Place(row="MIR-MRC, F-Net (single)", column="test F1"),
            ),
        ),
        notes=(ONLY_DEV, OF_OTHERS),
    )


def table4(scale: Scale) -> Experiment:
    """SWAG.

    Source: Table 4, section 4.4.
    Command: `bertsmith reproduce table4 --scale SCALE --text TEXT --data DATA`
    tiny: not measured; not measured; not measured (the set is not at hand).
    mini: not measured; not measured; not measured (the set is not at hand).
    paper: planned 4,080 days on two cores (several GPUs: README.md); planned 11 GiB with
        `--accumulation 32`, 55 GB of disk; not measured (the paper's: 81.6 and 86.6).
    """
    models = {"BERT BASE": scale.bert(), "BERT LARGE": large(scale)}
    return Experiment(
        name="table4",
        title="SWAG",
        source="Table 4",
        columns=("Dev", "test"),
        rows=tuple(
            Row(
                title=title,
                cells=(scale.score(models[title], "SWAG") if title in models else None, None),
                paper=figures,
            )
            for title, figures in the_paper.TABLE_4.items()
        ),
        claims=(
            higher("LARGE is above BASE", "BERT LARGE", "BERT BASE", ("Dev",)),
            *(
                above_paper(
                    f"LARGE is above {other} (the paper: by {gain})",
                    Place(row="BERT LARGE", column="Dev"),
                    Place(row=other, column="test"),
                )
                for other, gain in (("ESIM+ELMo", 27.1), ("OpenAI GPT", 8.3))
            ),
        ),
        notes=(ONLY_DEV, OF_OTHERS),
    )


def _em_and_f1(score: Score | None) -> tuple[Cell | None, ...]:
    """Exact match and F1 of the same runs on Dev, nothing on test; nothing at all of no score."""
    if score is None:
        return (None,) * len(the_paper.DEV_AND_TEST)
    return (replace(score, metric="exact"), score, None, None)
