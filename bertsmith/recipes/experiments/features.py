"""Table 7 and the contemporaries: fine-tuning beside frozen features, BERT beside GPT and ELMo.

Source: Devlin et al. 2018, section 5.3, Figure 3, appendix A.4; Peters et al. 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bertsmith.model.layer_choice import LayerChoice
from bertsmith.recipes import ablations
from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.experiment import (
    Claim,
    Experiment,
    Joined,
    Place,
    Pretrained,
    Row,
)
from bertsmith.recipes.experiments.pieces import (
    UNCASED,
    above_paper,
    higher,
    large,
    notes_on_entities,
    notes_on_first_vectors,
    pair,
)
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.experiments.the_paper import Figures
from bertsmith.recipes.finetuning import TABLE_7 as LAYERS

_OTHERS = ("ELMo", "CVT", "CSE")
MIXED = "weighted-sum-with-embeddings"


def table7(scale: Scale) -> Experiment:
    """Named entities: fine-tuned, and from six choices of frozen hidden states.

    Source: Table 7, section 5.3.
    Command: `bertsmith reproduce table7 --scale SCALE --text TEXT --data DATA`
    tiny: 6 min; planned 0.7 GiB; F1 10.9 fine-tuned (LARGE 5.9), 0.0 from features.
    mini: 126 min for LARGE's pre-training, 63 where it was made anew for its cell, 25 min for that
        cell and, with stops in one, 6 to 47 min for each of BASE's, of one thread beside another;
        2.2 GiB; F1 77.4 of LARGE and 74.9 of BASE fine-tuned, 71.4 (the last layer) to 76.7 (the
        second-to-last) from BASE's features.
    paper: planned 4,080 days on two cores (several GPUs: README.md); planned 11 GiB with
        `--accumulation 32`, 513 GB of disk; not measured (the paper's: F1 96.4 fine-tuned, 91.0 to
        96.1 from features).
    """
    model, exam = scale.bert(cased=True), "CoNLL-2003"
    num_layers = scale.base.model.num_hidden_layers
    large_title, base, *features = [name for name in the_paper.TABLE_7 if name not in _OTHERS]
    concat = "Concat Last Four Hidden"
    ours = {
        large_title: scale.score(large(scale, cased=True), exam),
        base: scale.score(model, exam),
        **{
            title: scale.features(model, layers)
            for title, layers in zip(features, LAYERS, strict=True)
        },
    }
    distinct = _distinct({title: ours[title].run.layers for title in features}, num_layers)
    return Experiment(
        name="table7",
        title="CoNLL-2003 named entities",
        source="Table 7",
        columns=("Dev F1", "test F1"),
        rows=tuple(
            Row(title=title, cells=(ours.get(title), None), paper=figures)
            for title, figures in the_paper.TABLE_7.items()
        ),
        claims=(
            Claim(
                sentence="The last four layers side by side are the best features",
                pairs=tuple(pair(concat, each, "Dev F1") for each in distinct if each != concat),
            ),
            Claim(
                sentence="and stay 0.3 points behind fine-tuning: both ways work",
                pairs=(pair(base, concat, "Dev F1"),),
                kind="close",
                margin=1.0,
            ),
            above_paper(
                "LARGE, fine-tuned, is competitive with the best before (above ELMo on Dev)",
                Place(row=large_title, column="Dev F1"),
                Place(row="ELMo", column="Dev F1"),
            ),
        ),
        notes=(
            *notes_on_entities(scale),
            *_notes_on_equal_choices(features, distinct),
            *notes_on_first_vectors(scale, "the row of embeddings has more than its model taught"),
            "The test set is not read here: ours are of Dev.",
        ),
    )


def _distinct(layers: Mapping[str, str], num_layers: int) -> list[str]:
    """Of rows by title, those that read other states, or join them otherwise, than one before."""
    found: dict[object, str] = {}
    for title, name in layers.items():
        choice = LayerChoice(name=name)
        found.setdefault((choice.is_sum, choice.numbers(num_layers)), title)
    return list(found.values())


def _notes_on_equal_choices(features: Sequence[str], distinct: Sequence[str]) -> tuple[str, ...]:
    """Which rows are another row once more; nothing where none is."""
    again = [title for title in features if title not in distinct]
    if not again:
        return ()
    return (
        f"{' and '.join(again)} reads what a row above it reads, so that {len(distinct)} of the "
        f"{len(features)} choices are distinct here; the claim counts none twice.",
    )


def contemporaries(scale: Scale) -> Experiment:
    """BERT beside OpenAI GPT's left-to-right model and ELMo's two-way features, on equal text.

    Source: section 1, Figure 3, appendix A.4.
    Command: `bertsmith reproduce contemporaries --scale SCALE --text TEXT --data DATA`
    tiny: 2 min 39 s for 11 of 17 parts, without four of the five pre-trainings; planned 0.7 GiB;
        SST-2 52.7 of BERT, 58.9 of left-to-right, both guess on MNLI, NER 10.9 and 19.6, from
        features 0.0 and 0.5, of ELMo's LSTMs 0.0, of two Transformers 2.8.
    mini: 88 min for the ten cells, of one thread beside another, after five pre-trainings
        (`ablations` has their times); planned 1.5 GiB; MNLI 47.4 of BERT, 45.5 of left-to-right,
        NER features 76.2 and 79.0, of ELMo's LSTMs and of two Transformers 81.3.
    paper: planned 7,860 days on two cores (several GPUs: README.md); planned 4.9 GiB with
        `--accumulation 32`, 202 GB of disk; not measured (the paper's: MNLI 84.6 and 82.1, of other
        texts each).
    """
    columns = ("MNLI-m", "SST-2", "NER fine-tuned", "NER features")
    bert, gpt = scale.bert(), scale.left_to_right()
    right = Pretrained(run=ablations.one_way(scale.base, "right_to_left"))
    shallow = Joined(left_to_right=gpt, right_to_left=right)
    elmo = Joined(
        left_to_right=Pretrained(run=ablations.lstm(scale.base, "left_to_right")),
        right_to_left=Pretrained(run=ablations.lstm(scale.base, "right_to_left")),
    )

    def tuned(title: str, model: Pretrained, paper: Figures) -> Row:
        exams = ("MNLI-m", "SST-2", "CoNLL-2003")
        cells = [scale.score(model, exam) for exam in exams]
        return Row(title=title, cells=(*cells, scale.features(model, MIXED)), paper=paper)

    def frozen(title: str, model: Joined, paper: Figures = ()) -> Row:
        cells = (None, None, None, scale.features(model, MIXED))
        return Row(title=title, cells=cells, paper=paper)

    rows = (
        tuned("BERT", bert, the_paper.CONTEMPORARIES["BERT BASE"]),
        tuned("OpenAI GPT: left to right", gpt, the_paper.CONTEMPORARIES["OpenAI GPT"]),
        frozen("ELMo: two LSTMs, layers mixed", elmo, the_paper.CONTEMPORARIES["ELMo"]),
        frozen("two Transformers side by side", shallow),
    )
    titles = [row.title for row in rows]
    features = columns[-1]
    return Experiment(
        name="contemporaries",
        title="BERT, OpenAI GPT and ELMo on the same text",
        source="section 1, Figure 3, appendix A.4",
        columns=columns,
        rows=rows,
        claims=(
            higher("BERT is above the left-to-right model", titles[0], titles[1], columns[:3]),
            higher("BERT's features are above the left-to-right model's (asked here: the paper has "
                   "no such figure)", titles[0], titles[1], (features,)),
            Claim(
                sentence="BERT fine-tuned is above ELMo's features (the paper: 96.4 and 95.7)",
                pairs=(
                    (
                        Place(row=titles[0], column=columns[2]),
                        Place(row=titles[2], column=features),
                    ),
                ),
            ),
            higher("BERT's features are above ELMo's", titles[0], titles[2], (features,)),
            higher("BERT's features are above two one-way Transformers side by side", titles[0],
                    titles[3], (features,)),
        ),
        notes=(
            "Features are a learned mix of all layers, embeddings included, under a two-layer "
            "BiLSTM. ELMo's two LSTMs read WordPiece tokens, and share nothing.",
            "All models learned in as many steps on the same text. One of one direction is asked "
            "for every token and BERT for 15%, and two side by side had twice the steps together.",
            "The paper's models learned from different texts. Its figures: MNLI and SST-2 of "
            "GLUE's test (Table 1), named entities of Dev (Table 7; BERT's features are its last "
            "four layers side by side).",
            *notes_on_first_vectors(
                scale, "one-way models have something of the other side from the start"
            ),
            UNCASED,
        ),
    )  # fmt: skip
