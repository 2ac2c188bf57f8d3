"""What is missing, fails, is stopped or is taken by another process: named, and never a crash.

One file, since all of it begins with one pre-trained model, which takes longest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.commands.reproduction import making
from bertsmith.commands.reproduction.parts import Part
from bertsmith.recipes.experiments.experiment import (
    Cell,
    Perplexity,
    Pretrained,
    Score,
    Tuned,
)
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.directory import fingerprint
from bertsmith.runs.experiments.places import Site
from tests.commands.small_reproduction import (
    NUM_STEPS,
    experiment,
    made_by,
    reproduced,
    rows_of,
    small_scale,
    write_mnli,
    write_squad,
)
from tests.commands.small_run import write_text

SCALE = small_scale()
Ask = Callable[..., None]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, MNLI, and a model that was pre-trained."""
    folder = tmp_path_factory.mktemp("begun")
    write_text(folder / "text")
    write_mnli(folder / "data" / "glue", "train", "dev_matched", "dev_mismatched")
    with pytest.MonkeyPatch.context() as patched:
        model = Perplexity(model=SCALE.bert())
        patched.setitem(EXPERIMENTS, "table1", lambda scale: experiment(model))
        reproduced(folder, "table1")
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(begun, tmp_path / "copy"))


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Makes `table1` a table of these cells, one a row."""

    def asked(*cells: Cell) -> None:
        monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*cells))

    return asked


def matched(**changes: object) -> Score:
    """A cell of MNLI whose runs learn something."""
    score = SCALE.score(SCALE.bert(), "MNLI-m")
    optimizer = replace(score.run.optimizer, learning_rate=5e-3)
    run = replace(score.run, optimizer=optimizer, epochs=6.0, batch_size=8, evaluate_every=6.0)
    return replace(score, run=run, **changes)  # type: ignore[arg-type]


def hopeless(score: Score) -> Score:
    """At a rate that makes every number infinite."""
    optimizer = replace(score.run.optimizer, learning_rate=1e30)
    return replace(score, run=replace(score.run, optimizer=optimizer))


def times(folder: Path) -> dict[Path, int]:
    """When each fine-tuning wrote its metrics."""
    found = (folder / "out" / "fine-tuned").rglob("metrics.jsonl")
    return {path: path.stat().st_mtime_ns for path in found}


def test_models_of_one_table_are_measured_on_what_another_asks(folder: Path, ask: Ask) -> None:
    ask(matched())
    reproduced(folder, "table1")
    before = times(folder)
    ask(matched(measured_on="MNLI-mm"))
    reproduced(folder, "table1")
    row = rows_of(folder, "table1")["row 0"]
    assert (row["runs"], len(row["values"].split()), row["gap"]) == ("2", 2, "")
    assert times(folder) == before


def test_a_models_cells_follow_it(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(matched(), model=SCALE.left_to_right())
    ask(matched(), other, replace(matched(), restarts=1, max_tokens=16))
    made = made_by(monkeypatch)
    reproduced(folder, "table1")
    models = [each.model if isinstance(each, Score) else each for each in made]
    assert models == [SCALE.bert(), SCALE.bert(), SCALE.left_to_right(), SCALE.left_to_right()]


def test_what_was_cleared_is_learned_again_for_examples_that_came_later(
    folder: Path, ask: Ask
) -> None:
    place = folder / "data" / "glue" / "MNLI" / "dev_mismatched.tsv"
    text = place.read_text("utf-8")
    place.unlink()
    ask(matched(), matched(measured_on="MNLI-mm"))
    printed = reproduced(folder, "table1")
    assert "row 1 (score): " in printed
    before = rows_of(folder, "table1")
    assert before["row 0"]["runs"] == "2"
    assert "dev_mismatched" in before["row 1"]["gap"]
    place.write_text(text, "utf-8")
    reproduced(folder, "table1")
    after = rows_of(folder, "table1")
    assert after["row 1"]["runs"] == "2"
    assert after["row 0"]["values"] == before["row 0"]["values"]


def test_other_mismatched_examples_are_measured_anew(folder: Path, ask: Ask) -> None:
    ask(matched(measured_on="MNLI-mm"))
    reproduced(folder, "table1", keep_models=True)
    first, trained = rows_of(folder, "table1")["row 0"]["values"], times(folder)
    place = folder / "data" / "glue" / "MNLI" / "dev_mismatched.tsv"
    place.write_text(place.read_text("utf-8").replace("\tneutral", "\tentailment"), "utf-8")
    reproduced(folder, "table1", keep_models=True)
    assert rows_of(folder, "table1")["row 0"]["values"] != first
    assert times(folder) == trained


def test_more_restarts_and_an_ensemble_of_all_are_made_of_what_is_there(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether so small a run ends at chance depends on the processor's last bits.
    monkeypatch.setattr("bertsmith.runs.search_results.failure_of", lambda *_: "")
    ask(matched())
    reproduced(folder, "table1")
    two = rows_of(folder, "table1")["row 0"]["values"].split()
    ask(matched(), matched(restarts=3), matched(restarts=3, taken="ensemble"))
    reproduced(folder, "table1")
    rows = rows_of(folder, "table1")
    assert rows["row 0"]["values"].split() == two
    assert rows["row 1"]["values"].split()[:2] == two
    assert [row["runs"] for row in rows.values()] == ["2", "3", "1"]


def test_an_ensemble_of_failed_runs_is_a_named_gap(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(hopeless(matched(taken="ensemble")), hopeless(matched(measured_on="MNLI-mm")))
    made = made_by(monkeypatch)
    reproduced(folder, "table1")
    rows = rows_of(folder, "table1")
    assert len(made) == 1  # both cells at once, and nothing is tried again
    assert all((row["mean"], row["failed"]) == ("", "2") for row in rows.values())
    assert all(row["gap"] == "all 2 runs failed, and gave no number" for row in rows.values())


def test_a_search_that_was_stopped_goes_on_with_the_micro_batches_it_began_with(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(matched(measured_on="MNLI-mm"))
    _stop_before_measuring(folder, monkeypatch, accumulation=2)
    before = times(folder)
    reproduced(folder, "table1")
    assert rows_of(folder, "table1")["row 0"]["runs"] == "2"
    assert times(folder) == before


def test_a_pre_training_that_diverges_leaves_the_other_rows_alone(folder: Path, ask: Ask) -> None:
    wild = replace(SCALE.base, optimizer=replace(SCALE.base.optimizer, learning_rate=1e30))
    model = Pretrained(run=replace(wild, name="wild"))
    ask(matched(model=model), Perplexity(model=model), matched())
    reproduced(folder, "table1")
    rows = rows_of(folder, "table1")
    assert "diverged" in rows["row 0"]["gap"]
    assert "diverged" in rows["row 1"]["gap"]
    assert rows["row 2"]["runs"] == "2"
    assert "4 of 4 parts are there" in reproduced(folder, "table1")


@pytest.fixture
def with_squad(folder: Path) -> Path:
    write_squad(folder / "data", "squad/train-v1.1.json", "squad/dev-v1.1.json")
    return folder


def after_trivia(first: Callable[[Score], Score]) -> Score:
    learned = replace(first(SCALE.score(SCALE.bert(), "TriviaQA")), restarts=1)
    return SCALE.score(Tuned(learned=learned), "SQuAD 1.1")


def test_squad_alone_is_measured_where_trivia_qa_is_missing(with_squad: Path, ask: Ask) -> None:
    ask(SCALE.score(SCALE.bert(), "SQuAD 1.1"), after_trivia(lambda score: score))
    reproduced(with_squad, "table1")
    rows = rows_of(with_squad, "table1")
    assert rows["row 0"]["runs"] == "2"
    assert "triviaqa" in rows["row 1"]["gap"]


def test_trivia_qa_comes_first_with_its_head_and_its_weights_stay(
    with_squad: Path, ask: Ask
) -> None:
    write_squad(with_squad / "data", "triviaqa/train.json")
    ask(after_trivia(lambda score: score))
    reproduced(with_squad, "table1")
    assert rows_of(with_squad, "table1")["row 0"]["runs"] == "2"
    tuned = with_squad / "out" / "fine-tuned"
    assert list(tuned.glob("TriviaQA-*/*/checkpoints/*/model.safetensors"))
    assert not list(tuned.glob("SQuAD-*/*/checkpoints"))
    records = [path.read_text("utf-8") for path in tuned.glob("SQuAD-*/*/run.json")]
    assert len(records) == 2
    assert all('"keep_head": true' in record for record in records)


def test_what_begins_with_a_failed_run_is_a_named_gap(
    with_squad: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_squad(with_squad / "data", "triviaqa/train.json")
    ask(after_trivia(hopeless))
    made = made_by(monkeypatch)
    reproduced(with_squad, "table1")
    assert "learning TriviaQA first failed" in rows_of(with_squad, "table1")["row 0"]["gap"]
    reproduced(with_squad, "table1")
    assert len(made) == 1


def test_a_search_that_was_stopped_goes_on_where_its_files_have_moved(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(matched(measured_on="MNLI-mm"))
    _stop_before_measuring(folder, monkeypatch)
    before = times(folder)
    (folder / "data").rename(folder / "elsewhere")
    reproduced(folder, "table1", data=folder / "elsewhere")
    assert rows_of(folder, "table1")["row 0"]["runs"] == "2"
    assert times(folder) == before


def test_checkpoints_of_one_run_are_held_together(tmp_path: Path) -> None:
    site = Site(directory=tmp_path / "out", data=tmp_path, corpora={False: "a" * 64})
    last, early = SCALE.bert(), SCALE.bert(step=SCALE.steps_between)
    assert site.place_of_claim(site.of(last)) == site.place_of_claim(site.of(early))
    apart = Pretrained(run=replace(SCALE.base, seed=1))
    assert site.place_of_claim(site.of(last)) != site.place_of_claim(site.of(apart))


def test_what_another_process_has_just_finished_is_not_made_again(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(Perplexity(model=SCALE.left_to_right()))
    made = made_by(monkeypatch)
    claim = Site.place_of_claim

    def finished(site: Site, place: Path) -> Path:
        monkeypatch.setattr(Part, "is_there", lambda part, site: True)
        return claim(site, place)

    monkeypatch.setattr(Site, "place_of_claim", finished)
    reproduced(folder, "table1")
    assert not made


def test_a_checkpoint_on_the_way_is_fine_tuned_as_the_last_one_is(folder: Path, ask: Ask) -> None:
    ask(matched(model=SCALE.bert(step=SCALE.steps_between)), matched())
    reproduced(folder, "table1")
    assert all(row["runs"] == "2" for row in rows_of(folder, "table1").values())
    records = (folder / "out" / "fine-tuned").glob("*/*/run.json")
    steps = [Path(json.loads(path.read_text("utf-8"))["model"]).name for path in records]
    expected = [f"step-{step:08d}" for step in (SCALE.steps_between, NUM_STEPS)]
    assert sorted(steps) == [step for step in expected for _ in range(2)]


def test_a_checkpoint_that_somebody_deleted_is_told(folder: Path, ask: Ask) -> None:
    (early,) = (folder / "out" / "pretrained").glob(f"*/checkpoints/step-{SCALE.steps_between:08d}")
    assert SCALE.steps_between < NUM_STEPS
    shutil.rmtree(early)
    ask(matched(model=SCALE.bert(step=SCALE.steps_between)))
    with pytest.raises(ValueError, match="move it away"):
        reproduced(folder, "table1")


def test_perplexities_need_no_labelled_sets(folder: Path, ask: Ask) -> None:
    shutil.rmtree(folder / "data" / "glue")
    ask(Perplexity(model=SCALE.bert()), matched())
    reproduced(folder, "table1")
    rows = rows_of(folder, "table1")
    assert float(rows["row 0"]["mean"]) > 1.0
    assert "MNLI" in rows["row 1"]["gap"]
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    ask(matched())
    with pytest.raises(ValueError, match=r"holds none of the labelled sets: .*MNLI"):
        reproduced(folder, "table1")


def test_other_text_does_not_take_the_place_of_what_finished_runs_stand_on(
    folder: Path, ask: Ask
) -> None:
    ask(Perplexity(model=SCALE.bert()))
    assert "all of it is there" in reproduced(folder, "table1", plan_only=True)
    write_text(folder / "text", num_documents=30)
    with pytest.raises(ValueError, match=r"was made of other text.*choose another directory"):
        reproduced(folder, "table1")


def test_a_corpus_that_nothing_reads_is_not_made(folder: Path, ask: Ask) -> None:
    cased = Pretrained(run=SCALE.base, cased=True)
    ask(replace(SCALE.score(cased, "CoNLL-2003")), Perplexity(model=SCALE.bert()))
    reproduced(folder, "table1")
    assert [path.name for path in (folder / "out" / "text").iterdir()] == ["uncased-300"]


def test_a_corpus_that_another_process_built_anew_is_not_trained_on(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "fingerprint", lambda corpus: fingerprint(corpus)[::-1])
    ask(Perplexity(model=SCALE.left_to_right()))
    with pytest.raises(ValueError, match="built anew from other text"):
        reproduced(folder, "table1")


def test_a_run_that_was_stopped_goes_on_however_often_it_saves(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perplexity(**changes: object) -> Perplexity:
        run: PretrainRun = replace(SCALE.left_to_right().run, **changes)  # type: ignore[arg-type]
        return Perplexity(model=Pretrained(run=run))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    ask(perplexity())
    with monkeypatch.context() as patched:
        patched.setattr("bertsmith.commands.pretrain._carry_out", stopped)
        with pytest.raises(KeyboardInterrupt):
            reproduced(folder, "table1")
    ask(perplexity(save_every=1))
    reproduced(folder, "table1")
    assert rows_of(folder, "table1")["row 0"]["runs"] == "1"


def _stop_before_measuring(
    folder: Path, monkeypatch: pytest.MonkeyPatch, accumulation: int | None = None
) -> None:
    """As Ctrl-C does between a search and what is measured on its best."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    options = {} if accumulation is None else {"accumulation": accumulation}
    with monkeypatch.context() as patched:
        patched.setattr(making, "_measure_also", stopped)
        with pytest.raises(KeyboardInterrupt):
            reproduced(folder, "table1", **options)
