"""Where a part lies follows from what decides its numbers, and from nothing else."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Joined,
    Model,
    Pretrained,
    Score,
    Tuned,
    models_of,
    scores_of,
)
from bertsmith.recipes.experiments.scales import SCALES, mini
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.experiments.places import Site, files_of, key_of, source_of
from tests.commands.small_task import write_glue

SCALE = mini()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    write_glue(tmp_path / "data" / "glue")
    return Site(directory=tmp_path / "out", data=tmp_path / "data", corpora={False: "a" * 64})


def test_runs_that_save_and_tell_at_other_times_lie_in_one_place(site: Site) -> None:
    run = SCALE.base
    other = Pretrained(run=replace(run, save_every=7, log_every=3, keep_checkpoints=9))
    assert site.of_model(Pretrained(run=run)) == site.of_model(other)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"objectives": ("masked_lm",)},
        {"warmup_steps": 5},
        {"dropout": True},
        {"evaluate_sequences": 7},  # Table 6's perplexity is of these
    ],
)
def test_what_decides_the_numbers_decides_the_place(site: Site, change: dict[str, object]) -> None:
    run = SCALE.base
    changed = replace(run, **change)  # type: ignore[arg-type]
    assert site.of_model(Pretrained(run=run)) != site.of_model(Pretrained(run=changed))


def test_another_corpus_is_another_place(site: Site) -> None:
    other = replace(site, corpora={False: "b" * 64})
    model = Pretrained(run=SCALE.base)
    assert site.of_model(model) != other.of_model(model)


def score(**changes: object) -> Score:
    return replace(SCALE.score(SCALE.bert(), "SST-2"), **changes)  # type: ignore[arg-type]


def test_a_cell_is_shared_whatever_is_read_of_it(site: Site) -> None:
    place = site.of_score(score())
    assert place == site.of_score(score(metric="other", restarts=9, taken="ensemble"))
    assert place != site.of_score(score(most_examples=5))
    assert place != site.of_score(score(run=replace(score().run, epochs=9.0)))


def test_how_often_dev_is_measured_decides_where_it_chooses_the_model(site: Site) -> None:
    run = score().run
    often = replace(run, evaluate_every=0.1)
    assert site.of_score(score(run=often)) == site.of_score(score())
    chosen = (replace(each, keep_best=True) for each in (run, often))
    assert len({site.of_score(score(run=each)) for each in chosen}) == 2


def test_what_others_begin_with_lies_where_nothing_is_cleared(site: Site) -> None:
    learned = score(restarts=1)
    assert site.of_model(Tuned(learned=learned)) != site.of_score(learned)
    with pytest.raises(ValueError, match="comes first once"):
        Tuned(learned=score())


def test_a_cell_of_an_earlier_checkpoint_is_another(site: Site) -> None:
    early = score(model=SCALE.bert(step=SCALE.steps_between))
    assert site.of_score(early) != site.of_score(score())
    assert key_of(SCALE.bert(), site) != key_of(SCALE.bert(step=SCALE.steps_between), site)


def test_changed_examples_are_another_place(site: Site) -> None:
    before = site.of_score(score())
    path = site.data / "glue" / "SST-2" / "train.tsv"
    path.write_text(path.read_text("utf-8") + "the dog likes me\t1\n", "utf-8")
    again = Site(directory=site.directory, data=site.data, corpora=site.corpora)
    assert again.of_score(score()) != before


def test_joined_models_lie_apart_from_their_sides(site: Site) -> None:
    sides = [Pretrained(run=replace(SCALE.base, seed=seed)) for seed in (0, 1)]
    joined = Joined(left_to_right=sides[0], right_to_left=sides[1])
    models: list[Model] = [*sides, joined]
    assert len(set(map(site.of_model, models))) == 3


def test_compressed_files_are_found_and_missing_ones_named(tmp_path: Path) -> None:
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "train-v1.1.json.gz").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(FileNotFoundError, match=r"dev-v1\.1\.json"):
        files_of(EXAMS["SQuAD 1.1"], tmp_path)
    (tmp_path / "squad" / "dev-v1.1.json").write_text("{}")
    source = source_of(EXAMS["SQuAD 1.1"], tmp_path, {"doc_stride": 64})
    assert str(source["squad"]).endswith("train-v1.1.json.gz")
    assert source["doc_stride"] == 64


def test_mnli_mismatched_is_learned_from_the_matched_training_set(tmp_path: Path) -> None:
    folder = tmp_path / "glue" / "MNLI"
    folder.mkdir(parents=True)
    for name in ("train", "dev_matched", "dev_mismatched"):
        (folder / f"{name}.tsv").write_text("x\n")
    names = [path.name for path in files_of(EXAMS["MNLI-mm"], tmp_path)]
    assert names == ["train.tsv", "dev_mismatched.tsv"]


NAMES = {
    "tiny": {
        "table1": "4778de68ad57211c",
        "table2": "db4d41e923742820",
        "table3": "045be305aa732793",
        "table4": "76c31f8ded227c70",
        "table5": "a1a2ca4682b05a36",
        "table6": "de9133357088644e",
        "table7": "41e4ba075a4a89dd",
        "table8": "18d882a88df09328",
        "figure5": "61ac14eb357bfd23",
        "contemporaries": "1b9b2ea01b490312",
    },
    "mini": {
        "table1": "cf9954d8de97a69d",
        "table2": "8b49001ce3e284c6",
        "table3": "c46f347a31e88ada",
        "table4": "45ec9b5e76b6bc80",
        "table5": "d508e4ddf621fa2f",
        "table6": "d1e023e9993d8a00",
        "table7": "b65f788be52a79c6",
        "table8": "6e64c948098a548f",
        "figure5": "121bf0ed169846fe",
        "contemporaries": "42d477db938775fd",
    },
}
"""SHA-256 of the names of all parts of an experiment, in 16 digits: a machine that has made some
hands them on under these. Whoever changes what decides a cell's numbers changes its name too."""


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", NAMES)
def test_parts_keep_the_names_that_other_machines_know_them_by(scale: str, name: str) -> None:
    site = _Nameless(directory=Path("/out"), data=Path("/data"), corpora=dict.fromkeys((0, 1), "a"))
    told = [
        f"{row.title}|{column}|{site.name_of(part)}"
        for row, column, cell in EXPERIMENTS[name](SCALES[scale]()).cells()
        for part in (*models_of(cell), *scores_of(cell))
    ]
    found = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    assert found == NAMES[scale][name]


class _Nameless(Site):
    """A site whose exams are known by their names, so that no file is needed."""

    def hash_of(self, exam: str) -> str:
        return exam
