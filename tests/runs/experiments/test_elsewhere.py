"""Lines of other machines are read whole or refused with their place, before anything is made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertsmith.files import write_json
from bertsmith.recipes.experiments.experiment import Joined, Perplexity, Score, Tuned
from bertsmith.runs.experiments.elsewhere import IS_ELSEWHERE, HandedOn, read_found
from bertsmith.runs.experiments.found import finding
from bertsmith.runs.experiments.handing_on import write_found
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import ALSO, DIVERGED, is_there, points_of
from bertsmith.runs.search_record import PointEnsemble, name_of, point_name, read_results
from tests.runs.experiments.test_found import SCALE, accuracy, cell, search, site, write

__all__ = ["site"]

RUN = {
    "name": "a", "seed": 0, "scores": {"f1": 0.5}, "step": 1, "loss": None, "seconds": 1.0,
    "failure": "",
}  # fmt: skip
SCORE: dict[str, Any] = {
    "cell": "fine-tuned/a",
    "results": {"runs": [RUN], "ensembles": {}},
    "also": {"MNLI-mm": {"examples": "ab", "scores": {"a": {"accuracy": 0.5}}}},
    "seconds": 1.0,
}
SET = {"num_train": 80, "num_learned": 80, "num_dev": 80, "not_official": ["few are there"]}
PERPLEXITY: dict[str, Any] = {"cell": "pretrained/a", "perplexity": 12.5, "seconds": 3}


def about(score: Score) -> dict[str, object]:
    """What is said of every cell's set."""
    return SET


def elsewhere(site: Site, *cells: Score | Perplexity) -> Site:
    """Another machine, that has the lines of this one."""
    path = site.directory / "found.jsonl"
    write_found(path, {f"cell {number}": each for number, each in enumerate(cells)}, site, about)
    return replace(site, directory=site.directory / "elsewhere", elsewhere=read_found([path]))


def test_a_line_says_of_its_set_that_it_is_no_official_one_and_older_lines_get_it_too(
    site: Site,
) -> None:
    write(site, cell(), *accuracy(0.5, 0.6, 0.7))
    search(site, cell())
    path = site.directory / "found.jsonl"
    write_found(path, {"cell": cell()}, site, about)
    line = json.loads(path.read_text("utf-8"))
    assert line["set"] == SET
    # As lines of before were written.
    del line["set"]
    path.write_text(json.dumps(line), "utf-8")
    there = replace(site, directory=site.directory / "elsewhere", elsewhere=read_found([path]))
    assert finding(cell(), there, {}).values == (50.0, 60.0, 70.0)
    handed_on = there.directory / "found.jsonl"
    write_found(handed_on, {"cell": cell()}, there, about)
    assert json.loads(handed_on.read_text("utf-8"))["set"] == SET


def test_lines_are_read_by_cell_and_the_last_of_a_cell_counts(tmp_path: Path) -> None:
    later = {**PERPLEXITY, "perplexity": None, "title": "a\u2028b"}
    lines = [json.dumps(each, ensure_ascii=False) for each in (SCORE, PERPLEXITY, later)]
    (tmp_path / "a").write_text("\n".join([lines[0], "", lines[1]]), "utf-8")
    (tmp_path / "b").write_text(lines[2], "utf-8")
    found = read_found([tmp_path / "a", tmp_path / "b"])
    assert found["fine-tuned/a"].results.runs["a"].scores == {"f1": 0.5}
    assert found["pretrained/a"].perplexity is None
    assert found["pretrained/a"].seconds == 3
    assert read_found([tmp_path / "a"])["pretrained/a"].perplexity == 12.5


def test_lines_that_each_have_something_of_their_own_become_one(tmp_path: Path) -> None:
    def line(name: str, exam: str, precision: str, f1: float) -> str:
        run = {**RUN, "name": name, "scores": {"f1": f1}, "seconds": 2.0}
        both = [{**RUN, "scores": {"f1": f1}}, run]
        also = {exam: {"examples": "ab", "scores": {name: {"accuracy": 0.5}}}}
        results = {"runs": both, "ensembles": {}}
        said: dict[str, object] = {"results": results, "also": also, "precision": precision}
        said |= {"seconds": 3.0, "versions": {"torch": "3" if name == "c" else "2"}}
        said |= {IS_ELSEWHERE: True} if name == "b" else {}
        return json.dumps({**SCORE, **said})

    path = tmp_path / "found.jsonl"
    lines = [line("b", "MNLI-mm", "bf16", 0.1), line("c", "MNLI-mm", "fp32", 0.2)]
    path.write_text("\n".join([*lines, line("d", "other", "bf16", 0.3)]), "utf-8")
    found = read_found([path])["fine-tuned/a"]
    scores = {name: run.scores["f1"] for name, run in found.results.runs.items()}
    assert scores == {"a": 0.3, "b": 0.1, "c": 0.2, "d": 0.3}
    assert found.also["MNLI-mm"]["scores"].keys() == {"b", "c"}
    assert found.also["other"]["scores"].keys() == {"d"}
    assert found.seconds == 1.0 + 3 * 2.0
    assert found.line["precision"] == "bf16 fp32"
    assert found.line["versions"] == {"torch": "2, 3"}
    assert found.line[IS_ELSEWHERE]  # something of it is
    # What is handed on holds all of it too.
    path.write_text(json.dumps(found.line), "utf-8")
    assert read_found([path])["fine-tuned/a"] == found


def test_what_was_made_of_a_run_goes_with_it(tmp_path: Path) -> None:
    """Of runs that both lines have, the later's: no ensemble or other set of the earlier's."""

    def line(value: float, *more: str, **said: object) -> str:
        names = ("a", "b", *more)
        runs = [{**RUN, "name": name, "scores": {"f1": value}} for name in names]
        both = {"names": ["a", "b"], "scores": {"f1": value}, "intervals": {}}
        content = {**SCORE, "results": {"runs": runs, "ensembles": {"p": both}}, **said}
        return json.dumps(content)

    path = tmp_path / "found.jsonl"
    scores = {name: {"accuracy": 0.1} for name in ("a", "d")}
    early = line(0.1, "d", also={"mm": {"examples": "ab", "scores": scores}})
    late = line(0.9, "c", also={})
    late = json.dumps(
        {**json.loads(late), "results": {**json.loads(late)["results"], "ensembles": {}}}
    )
    path.write_text("\n".join([early, late]), "utf-8")
    found = read_found([path])["fine-tuned/a"]
    assert {n: r.scores["f1"] for n, r in found.results.runs.items()} == {
        "a": 0.9, "b": 0.9, "c": 0.9, "d": 0.1
    }  # fmt: skip
    assert found.results.ensembles == {}
    assert found.also == {"mm": {"examples": "ab", "scores": {"d": {"accuracy": 0.1}}}}


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[1]",
        "1",
        b"\xff",
        {"title": "no cell"},
        {**PERPLEXITY, "cell": 3},
        {**PERPLEXITY, "perplexity": "12.5"},
        {**PERPLEXITY, "seconds": None},
        {**SCORE, "results": {"runs": []}},
        {**SCORE, "results": {"runs": [{**RUN, "colour": "red"}], "ensembles": {}}},
        {**SCORE, "results": {"runs": [{**RUN, "seconds": None}], "ensembles": {}}},
        {**SCORE, "results": {"runs": [{**RUN, "failure": None}], "ensembles": {}}},
        {**SCORE, "results": {"runs": [{**RUN, "scores": {"f1": "0.5"}}], "ensembles": {}}},
        {**SCORE, "also": {"MNLI-mm": {"scores": {}}}},
        {**SCORE, "also": {"MNLI-mm": {"examples": "ab", "scores": {"a": {"accuracy": True}}}}},
        {name: value for name, value in SCORE.items() if name != "also"},
    ],
)
def test_what_is_no_line_of_a_finished_cell_is_told_with_its_place(
    tmp_path: Path, line: Any
) -> None:
    text = line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else None
    path = tmp_path / "found.jsonl"
    path.write_bytes(json.dumps(SCORE).encode() + b"\n" + (text or json.dumps(line).encode()))
    with pytest.raises(ValueError, match=r"found\.jsonl, line 2: not what a finished cell has"):
        read_found([path])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl: no such file"):
        read_found([tmp_path / "nowhere.jsonl"])


@pytest.mark.parametrize(
    "scores", [accuracy(0.5, 0.6, 0.7), [*accuracy(0.5, 0.6), None], [None, None, None]]
)
def test_runs_that_failed_are_handed_on_as_such(site: Site, scores: list[Any]) -> None:
    write(site, cell(), *scores)
    search(site, cell())
    there = elsewhere(site, cell())
    assert is_there(cell(), there)
    assert finding(cell(), there, {}) == replace(finding(cell(), site, {}), is_elsewhere=True)


def test_fewer_runs_than_are_asked_for_are_not_enough_and_none_is_handed_on(site: Site) -> None:
    write(site, cell(), *accuracy(0.5, 0.6))
    search(site, cell())
    assert elsewhere(site, cell()).elsewhere == {}
    there = elsewhere(site, cell(restarts=2))
    assert is_there(cell(restarts=2), there)
    assert not is_there(cell(), there)


def test_what_was_made_here_counts_before_what_others_tell(site: Site) -> None:
    write(site, cell(), *accuracy(0.5, 0.5, 0.5))
    search(site, cell())
    there = elsewhere(site, cell())
    write(there, cell(), *accuracy(0.9, 0.9))
    assert finding(cell(), there, {}).values == (50.0, 50.0, 50.0)
    write(there, cell(), *accuracy(0.9, 0.9, 0.9))
    assert finding(cell(), there, {}).values == (90.0, 90.0, 90.0)
    assert not finding(cell(), there, {}).is_elsewhere


def test_an_ensemble_is_handed_on(site: Site) -> None:
    score = cell(taken="ensemble")
    results = write(site, score, *accuracy(0.5, 0.5, 0.5))
    point = point_name(score.run)
    results.ensembles[point] = PointEnsemble(
        names=tuple(results.runs), scores={"accuracy": 0.75}, intervals={"accuracy": (0.7, 0.8)}
    )
    search(site, score, results)
    there = elsewhere(site, score)
    assert finding(score, there, {}).values == (75.0,)
    assert is_there(cell(), there)


def also(site: Site, score: Score, *values: float) -> None:
    """What its runs reach on the other Dev set of MNLI."""
    names = [name_of(run) for point in points_of(score) for run in point]
    scores = {name: {"accuracy": value} for name, value in zip(names, values, strict=True)}
    measured = {"examples": site.hash_of("MNLI-mm"), "scores": scores}
    write_json(site.of_score(score) / ALSO, {"MNLI-mm": measured})


def test_what_is_not_whole_here_is_taken_whole_from_elsewhere(site: Site) -> None:
    both = cell(measured_on="MNLI-mm")
    write(site, cell(), *accuracy(0.5, 0.5, 0.5))
    search(site, cell())
    also(site, cell(), 0.4, 0.4, 0.4)
    there = elsewhere(site, both)
    write(there, cell(), *accuracy(0.9, 0.9, 0.9))
    assert finding(both, there, {}).values == (40.0, 40.0, 40.0)
    assert finding(cell(), there, {}).values == (90.0, 90.0, 90.0)


def test_a_line_is_replaced_by_one_that_has_all_of_it_and_by_no_poorer_one(site: Site) -> None:
    write(site, cell(), *accuracy(0.5, 0.5, 0.5))
    search(site, cell())
    also(site, cell(), 0.4, 0.4, 0.4)
    rich = next(iter(elsewhere(site, cell()).elsewhere.values()))
    (site.of_score(cell()) / ALSO).unlink()
    write(site, cell(), *accuracy(0.6, 0.6, 0.6))
    path = site.directory / "found.jsonl"
    write_found(path, {"cell": cell()}, site, about)
    assert next(iter(read_found([path]).values())) == rich
    poor = {**rich.line, "also": {}}
    for lines in ([poor, rich.line], [rich.line, poor]):
        path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
        assert next(iter(read_found([path]).values())) == rich
    also(site, cell(), 0.3, 0.3, 0.3)
    write_found(path, {"cell": cell()}, site, about)
    assert next(iter(read_found([path]).values())).results.runs != rich.results.runs


def test_a_line_without_the_metric_that_is_asked_for_is_not_enough(site: Site) -> None:
    write(site, cell(), *[{"f1": 0.5}] * 3)
    search(site, cell())
    known = {site.name_of(cell()): HandedOn(results=read_results(site.of_score(cell())), line={})}
    there = replace(site, directory=site.directory / "elsewhere", elsewhere=known)
    assert not is_there(cell(), there)
    assert finding(cell(), there, {}).gap == "not run yet"


def test_what_was_lost_here_and_found_elsewhere_counts(site: Site) -> None:
    write(site, cell(), *accuracy(0.5, 0.5, 0.5))
    search(site, cell())
    there = elsewhere(site, cell())
    directory = there.of_model(SCALE.bert())
    directory.mkdir(parents=True)
    (directory / DIVERGED).write_text("nan", "utf-8")
    assert finding(cell(), there, {}).values == (50.0, 50.0, 50.0)
    path = there.directory / "found.jsonl"
    write_found(path, {"cell": cell()}, there, about)
    [found] = read_found([path]).values()
    assert found.line[IS_ELSEWHERE]


def test_a_model_that_was_lost_is_not_handed_on(site: Site) -> None:
    directory = site.of_model(SCALE.bert())
    directory.mkdir(parents=True)
    (directory / DIVERGED).write_text("nan", "utf-8")
    lost = (cell(), Perplexity(model=SCALE.bert()))
    assert all(is_there(each, site) for each in lost)
    assert elsewhere(site, *lost).elsewhere == {}


def test_cells_of_joined_and_of_tuned_models_are_told_apart(site: Site) -> None:
    joined = Joined(left_to_right=SCALE.left_to_right(), right_to_left=SCALE.bert())
    tuned = Tuned(learned=cell(restarts=1))
    cells = (cell(), cell(model=joined), cell(model=tuned))
    for number, each in enumerate(cells):
        write(site, each, *accuracy(*[number / 10] * 3))
        search(site, each)
    there = elsewhere(site, *cells)
    found = [finding(each, there, {}).values[0] for each in cells]
    assert found == pytest.approx([0.0, 10.0, 20.0])
    assert len({name_of(each.run) for each in cells}) == 1  # by their directories alone
