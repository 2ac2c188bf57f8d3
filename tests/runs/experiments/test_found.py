"""Which runs a cell counts, and which point of a grid: nothing that failed is passed over."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.checkpoints.searches import SEARCH
from bertsmith.files import write_json
from bertsmith.recipes.experiments.experiment import (
    Average,
    Claim,
    Experiment,
    Perplexity,
    Place,
    Row,
    Score,
)
from bertsmith.recipes.experiments.scales import mini, paper
from bertsmith.runs.directory import RECORD
from bertsmith.runs.experiments import told, verdicts
from bertsmith.runs.experiments.elsewhere import HandedOn
from bertsmith.runs.experiments.found import Finding, finding, findings
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import ALSO, is_there, points_of
from bertsmith.runs.search_record import PointEnsemble, Results, RunResult, name_of, write_results
from bertsmith.tasks.means import student
from tests.commands.small_reproduction import write_mnli, write_squad

Scored = dict[str, float] | None
SCALE = mini()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    write_mnli(tmp_path / "data" / "glue", "train", "dev_matched", "dev_mismatched")
    return Site(directory=tmp_path / "out", data=tmp_path / "data", corpora={False: "a" * 64})


def write(site: Site, score: Score, *scores: Scored, failure: str = "") -> Results:
    """What the first runs have reached, in the order of the points; None: no number came out."""
    directory, results = site.of_score(score), Results(runs={}, ensembles={})
    names = [name_of(run) for point in points_of(score) for run in point]
    for seed, (name, reached) in enumerate(zip(names, scores, strict=False)):
        (directory / name).mkdir(parents=True, exist_ok=True)
        results.runs[name] = RunResult(
            name=name,
            seed=seed,
            scores=reached or {},
            step=1,
            loss=None,
            seconds=2.0,
            failure=failure if reached else "no number",
        )
    write_results(directory, results)
    return results


def search(site: Site, score: Score, results: Results | None = None) -> None:
    """What stands beside the results of a search that has ended, as far as it is read."""
    directory = site.of_score(score)
    if results is not None:
        write_results(directory, results)
    write_json(directory / SEARCH, {"versions": {"torch": "2"}})
    for run in directory.iterdir():
        if run.is_dir():
            write_json(run / RECORD, {"run": {"precision": "bf16"}})


def accuracy(*values: float) -> list[Scored]:
    return [{"accuracy": value} for value in values]


def cell(**changes: object) -> Score:
    return replace(mini().score(mini().bert(), "MNLI-m"), **changes)  # type: ignore[arg-type]


def found(site: Site, score: Score) -> Finding:
    return finding(score, site, {})


def test_a_run_without_a_number_is_counted_as_failed_and_not_in_the_mean(site: Site) -> None:
    write(site, cell(), *accuracy(0.5, 0.7), None)
    finding = found(site, cell())
    assert finding.values == (50.0, 70.0)
    assert (finding.num_runs, finding.num_failed, finding.num_lost) == (3, 1, 1)
    assert finding.seconds == 6.0


def test_runs_no_better_than_guessing_count(site: Site) -> None:
    write(site, cell(), *accuracy(0.3, 0.3, 0.3), failure="guessing")
    finding = found(site, cell())
    assert (len(finding.values), finding.num_failed, finding.num_lost) == (3, 3, 0)


def test_a_run_is_guessing_by_the_metric_that_its_cell_tells(site: Site) -> None:
    # As of MRPC: F1 chooses, and Tables 5 and 6 tell accuracy.
    told = cell(metric="other")
    reached: list[Scored] = [
        {"accuracy": 0.3, "other": 0.7},
        {"accuracy": 0.5, "other": 0.6},
        {"accuracy": 0.5, "other": 0.7},
    ]
    results = write(site, told, *reached)
    reasons = (
        "Dev accuracy 0.3; one answer to all has 0.4",
        "",
        "Dev accuracy 0.5; one answer to all has 0.5, and training loss 1.1; guessing by frequency "
        "has 1",
    )
    for each, reason in zip(list(results.runs.values()), reasons, strict=True):
        results.runs[each.name] = replace(each, failure=reason)
    write_results(site.of_score(told), results)
    assert finding(told, site, {}).num_failed == 2
    # 0.7 is above what one answer has, 0.6 is not, and a loss stays what it is.
    assert finding(told, site, {}, lambda score: 0.6).num_failed == 2
    assert finding(told, site, {}, lambda score: 0.5).num_failed == 1
    # The metric that chooses: what was said of a run stays, and the floor is compared too.
    assert finding(cell(), site, {}, lambda score: 0.2).num_failed == 2
    assert finding(cell(), site, {}, lambda score: 0.5).num_failed == 3


def test_runs_handed_on_before_their_floor_was_known_are_judged_by_it(site: Site) -> None:
    write_squad(site.data, "squad/train-v1.1.json", "squad/dev-v1.1.json")
    score = mini().score(mini().bert(), "SQuAD 1.1")
    names = [name_of(run) for point in points_of(score) for run in point]

    def judged(floor: float | None, *f1: float) -> Finding:
        runs = {
            name: RunResult(
                name=name, seed=seed, scores={"f1": value, "exact": value / 2}, step=1, loss=2.0,
                seconds=1.0, failure="",
            )
            for seed, (name, value) in enumerate(zip(names, f1, strict=True))
        }  # fmt: skip
        results = Results(runs=runs, ensembles={})
        there = replace(site, elsewhere={site.name_of(score): HandedOn(results=results, line={})})
        found = finding(score, there, {}, lambda _: floor)
        assert found.is_elsewhere
        return found

    assert judged(None, 7.9, 8.2, 8.1).num_guessing == 0
    guessing = judged(9.66, 7.9, 8.2, 8.1)
    assert (guessing.num_guessing, guessing.is_guessing) == (3, True)
    partly = judged(9.66, 7.9, 9.66, 12.1)
    assert (partly.num_guessing, partly.is_guessing) == (2, False)
    learned = judged(9.66, 10.6, 13.6, 12.2)
    assert (learned.num_guessing, learned.is_guessing) == (0, False)

    first, second = Place(row="first", column="F1"), Place(row="second", column="F1")
    claim = Claim(sentence="One is above", pairs=((first, second),))
    rows = tuple(Row(title=each, cells=(None,)) for each in ("first", "second"))
    table = Experiment(name="t", title="", source="", columns=("F1",), rows=rows)

    def verdict(below: Finding, above: Finding = guessing) -> str:
        (one,) = verdicts.judged(table, claim, {first: above, second: below})
        return one.verdict

    # Both only guess; one only guesses; one guesses in part.
    assert verdict(judged(9.66, 0.005, 0.005, 0.9)) == "not decidable"
    assert verdict(guessing, above=learned) == "reproduced"
    assert verdict(partly, above=judged(9.66, 30.0, 30.5, 31.0)) == "reproduced"
    assert verdict(judged(None, 0.005, 0.005, 0.9), judged(None, 7.9, 8.2, 8.1)) == "reproduced"


def test_an_ensemble_guesses_where_all_of_its_runs_do(site: Site) -> None:
    score = cell(taken="ensemble")
    results = write(site, score, *accuracy(0.5, 0.6, 0.7))
    names = tuple(results.runs)
    one = PointEnsemble(names=names, scores={"accuracy": 0.8}, intervals={})
    point = {names[0].removesuffix("-seed0"): one}
    write_results(site.of_score(score), replace_ensembles(results, point))
    for floor, num_guessing in ((0.4, 0), (0.6, 2), (0.7, 3)):
        found = finding(score, site, {}, lambda _, floor=floor: floor)  # type: ignore[misc]
        assert (found.num_valued, found.num_guessing) == (3, num_guessing)
        assert found.is_guessing is (num_guessing == 3)


def test_runs_without_any_number_are_a_gap(site: Site) -> None:
    write(site, cell(), None, None, None)
    assert found(site, cell()).gap == "all 3 runs failed, and gave no number"
    assert is_there(cell(), site)


def test_what_has_not_begun_is_not_a_failure(site: Site) -> None:
    assert found(site, cell()).gap == "not run yet"
    assert not is_there(cell(), site)


def test_runs_that_have_ended_do_not_stand_for_those_that_have_not(site: Site) -> None:
    score = replace(cell(), restarts=3)
    write(site, score, *accuracy(0.5, 0.7))
    part = found(site, score)
    assert (part.values, part.settled) == ((50.0, 70.0), ())
    assert part.gap == "2 of 3 runs have ended"
    row = Row(title="x", cells=(score,))
    table = Experiment(name="t", title="", source="", columns=("m",), rows=(row,))
    assert told.table(table, {Place(row="x", column="m"): part})[1] == [
        "x", "60.0 +- 14.1 (2 so far)"
    ]  # fmt: skip
    assert told.gaps({Place(row="x", column="m"): part}) == ["m: 2 of 3 runs have ended"]
    write(site, score, *accuracy(0.5, 0.7, 0.6))
    assert found(site, score).settled == (50.0, 70.0, 60.0)
    # Points of a grid that are left may be better.
    grid = replace(paper().score(paper().bert(), "MNLI-m"), restarts=2)
    write(site, grid, *accuracy(0.5, 0.5))
    assert found(site, grid).gap == "2 of 8 runs have ended"
    ensemble = replace(score, taken="ensemble")
    write(site, ensemble, *accuracy(0.5, 0.7))
    assert found(site, ensemble).gap == "2 of 3 runs have ended"
    assert found(site, ensemble).values == ()


def test_the_point_with_the_best_mean_counts(site: Site) -> None:
    score = replace(paper().score(paper().bert(), "MNLI-m"), restarts=2)
    write(site, score, *accuracy(0.5, 0.5, 0.4, 0.9, 0.6, 0.6, 0.9, 0.1))
    assert found(site, score).values == (40.0, 90.0)


def test_a_point_that_lost_a_run_does_not_count_before_whole_ones(site: Site) -> None:
    score = replace(paper().score(paper().bert(), "MNLI-m"), restarts=2)
    write(site, score, {"accuracy": 0.9}, None, *accuracy(0.4, 0.5, 0.4, 0.4, 0.3, 0.3))
    assert found(site, score).values == (40.0, 50.0)


def test_mismatched_examples_are_those_of_the_point_chosen_on_matched_ones(site: Site) -> None:
    score = replace(paper().score(paper().bert(), "MNLI-m"), restarts=1, measured_on="MNLI-mm")
    results = write(site, score, *accuracy(0.5, 0.9, 0.6, 0.7))
    scores = {
        name: {"accuracy": value}
        for name, value in zip(results.runs, (0.9, 0.4, 0.8, 0.1), strict=True)
    }
    assert found(site, score).gap == "not run yet"
    assert not is_there(score, site)
    measured = {"examples": site.hash_of("MNLI-mm"), "scores": scores}
    write_json(site.of_score(score) / ALSO, {"MNLI-mm": measured})
    assert found(site, score).values == (40.0,)
    assert is_there(score, site)


def test_an_ensemble_is_of_all_runs_that_did_not_fail(site: Site) -> None:
    score = cell(taken="ensemble")
    results = write(site, score, *accuracy(0.5, 0.6, 0.7))
    names = tuple(results.runs)
    point = names[0].removesuffix("-seed0")

    def averaged(*members: str) -> None:
        one = PointEnsemble(names=members, scores={"accuracy": 0.8}, intervals={})
        write_results(site.of_score(score), replace_ensembles(results, {point: one}))

    averaged(*names[:2])  # made before the third had ended
    assert found(site, score).gap == "not run yet"
    assert not is_there(score, site)
    averaged(*names)
    assert found(site, score).values == (80.0,)
    assert found(site, score).num_runs == 3
    assert is_there(score, site)


def replace_ensembles(results: Results, ensembles: dict[str, PointEnsemble]) -> Results:
    return Results(runs=results.runs, ensembles=ensembles)


def test_one_sound_run_is_no_ensemble(site: Site) -> None:
    score = cell(taken="ensemble")
    write(site, score, *accuracy(0.5), None, None)
    assert found(site, score).gap == "2 of 3 runs failed: no ensemble"
    assert is_there(score, site)


def test_an_ensemble_is_missing_for_the_runs_that_failed_when_they_ended(site: Site) -> None:
    """Members are chosen by the metric that chooses, whatever the cell tells."""
    told = cell(taken="ensemble", metric="other")
    reached: list[Scored] = [{"accuracy": 0.1, "other": 0.7}] * 3
    write(site, told, *reached, failure="Dev accuracy 0.1; one answer to all has 0.2")
    gap = finding(told, site, {}, lambda _: 0.5).gap
    assert gap == "3 of 3 runs failed: no ensemble"


def test_a_perplexity_is_of_the_last_step(site: Site) -> None:
    model = mini().bert()
    directory = site.of_model(model)
    write_json(directory / RECORD, {})
    (directory / "metrics.jsonl").write_text('{"step": 1, "evaluation_perplexity": 9.0}\n')
    assert found_perplexity(site).gap == "not run yet"
    place = directory / "checkpoints" / f"step-{model.run.num_steps:08d}"
    write_json(place / "config.json", {})
    (place / "model.safetensors").touch()
    assert found_perplexity(site).values == (9.0,)


def found_perplexity(site: Site) -> Finding:
    return finding(Perplexity(model=mini().bert()), site, {})


def test_an_average_has_the_interval_that_follows_from_its_columns(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "hash_of", lambda _, exam: exam)
    matched, other = cell(), replace(cell(), exam="SST-2")
    both = replace(matched, measured_on="MNLI-mm")
    columns = ("m", "mm", "other", "average")
    row = Row(title="x", cells=(matched, both, other, Average(columns=columns[:3])))
    table = Experiment(name="t", title="", source="", columns=columns, rows=(row,))
    reached = accuracy(0.5, 0.6, 0.7)
    names = list(write(site, matched, *reached).runs)
    measured = {"examples": "MNLI-mm", "scores": dict(zip(names, reached, strict=True))}
    write_json(site.of_score(matched) / ALSO, {"MNLI-mm": measured})
    write(site, other, *accuracy(0.8, 0.9, 0.85))
    average = findings(table, site, {})[Place(row="x", column="average")]
    assert average.values == (pytest.approx((60 + 60 + 85) / 3),)
    # Both columns of the same runs are one sum, of a deviation of 20; the third has one of 5.
    parts = [(20 / 3) ** 2 / 3, (5 / 3) ** 2 / 3]
    freedom = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)
    half_width = student(freedom) * math.sqrt(sum(parts))
    assert average.half_width == pytest.approx(half_width)
    line = told.table(table, {Place(row="x", column="average"): average})[1]
    assert line[-1] == f"68.3, 95%: {half_width:.1f}"


def test_an_average_knows_the_runs_behind_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "hash_of", lambda _, exam: exam)
    matched, other = cell(), replace(cell(), exam="SST-2")
    columns = ("m", "mm", "other", "average")
    both = replace(matched, measured_on="MNLI-mm")
    row = Row(title="x", cells=(matched, both, other, Average(columns=columns[:3])))
    table = Experiment(name="t", title="", source="", columns=columns, rows=(row,))
    reached = accuracy(0.5, 0.6, 0.7)
    for failure in ("guesses", ""):
        results = write(site, matched, *reached, failure="guesses")
        scores = dict(zip(results.runs, reached, strict=True))
        also = {"MNLI-mm": {"examples": "MNLI-mm", "scores": scores}}
        write_json(site.of_score(matched) / ALSO, also)
        write(site, other, *accuracy(0.8, 0.9, 0.85), failure=failure)
        average = findings(table, site, {})[Place(row="x", column="average")]
        assert average.num_valued == 6  # both of MNLI's are of the same three
        assert average.num_failed == (6 if failure else 3)
        assert average.is_guessing is bool(failure)


def test_a_finding_knows_its_mean_deviation_and_interval() -> None:
    finding = Finding(values=(1.0, 2.0, 3.0))
    assert finding.mean == 2.0
    assert finding.deviation == pytest.approx(1.0)
    assert finding.half_width == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert math.isnan(Finding().mean)
    assert math.isnan(Finding(values=(1.0,)).half_width)
