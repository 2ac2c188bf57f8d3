import json
import sys
from dataclasses import asdict

import pytest

from benchmarks import loss_parity
from benchmarks.loss_yardsticks import compare_exactly, compare_with_band, stricter_counts


def test_the_largest_difference_and_its_step_are_found():
    exact = compare_exactly([3.0, 2.0, 1.0], [3.0, 2.0 + 4e-7, 1.0 - 1e-7])
    assert exact.largest_difference == pytest.approx(4e-7)
    assert exact.at_step == 2
    assert exact.holds


def test_a_difference_above_a_millionth_does_not_hold():
    assert not compare_exactly([3.0, 2.0], [3.0, 2.0 + 2e-6]).holds


def test_the_band_is_the_widest_gap_so_far():
    peers = [[3.0, 2.0, 1.0, 0.5], [3.0, 2.1, 1.3, 0.6]]
    assert compare_with_band([3.0] * 4, peers).widths == pytest.approx([0.0, 0.1, 0.3, 0.3])


def test_a_curve_is_inside_when_it_is_near_enough_to_one_run():
    peers = [[3.0, 2.0, 1.0], [3.0, 2.1, 1.3]]
    band = compare_with_band([3.0 + 5e-6, 2.19, 0.8], peers)
    assert band.first_difference == pytest.approx(5e-6)
    assert band.differences == pytest.approx([5e-6, 0.09, 0.2])
    assert (band.steps_inside, band.holds) == (3, True)


def test_a_curve_beyond_the_band_at_one_step_is_not_inside():
    peers = [[3.0, 2.0, 1.0], [3.0, 2.1, 1.1]]
    band = compare_with_band([3.0, 2.25, 1.0], peers)
    assert (band.steps_inside, band.holds) == (2, False)


def test_the_first_step_has_a_bound_of_its_own():
    peers = [[3.0, 2.0], [3.0 + 2e-5, 2.1]]
    band = compare_with_band([3.0, 2.0], peers)
    assert (band.steps_inside, band.holds) == (1, False)


@pytest.mark.parametrize(("units", "steps_inside"), [(2, 2), (3, 1)])
def test_no_band_is_finer_than_a_float32(units, steps_inside):
    peers = [[3.0, 2.5], [3.0, 2.5]]
    ours = [3.0, 2.5 + units * 2.0**-22]
    assert compare_with_band(ours, peers).steps_inside == steps_inside


@pytest.mark.parametrize(
    ("ours", "counts"),
    [
        ([3.0, 2.05, 1.0], (1, 3, 3)),  # between at step 2, on one of the runs at the others
        ([3.0, 2.3, 1.05], (0, 2, 2)),  # farther outside than the gap is wide, then nearer
        ([3.1, 2.3, 1.09], (0, 0, 1)),  # only the gap of step 2 is wide enough at step 3
    ],
)
def test_stricter_yardsticks_count_fewer_steps(ours, counts):
    peers = [[3.0, 2.0, 1.0], [3.0, 2.125, 1.03125]]
    found = stricter_counts(ours, peers)
    assert (found.steps_between, found.steps_in_own_gap, found.steps_in_running_gap) == counts


def test_a_stored_row_is_told_again_with_the_stricter_counts(tmp_path, monkeypatch, capsys):
    curves = {"bertsmith": [[3.0, 2.05]], "transformers": [[3.0, 2.0], [3.0, 2.125]]}
    runs = [
        {"system": system, "threads": threads, "losses": losses}
        for system, each in curves.items()
        for threads, losses in enumerate(each, start=1)
    ]
    band = compare_with_band(curves["bertsmith"][0], curves["transformers"])
    row = {
        **dict(time="2026-01-02", commit="abc", corpus="texts", steps=2, batch=8),
        "float64": asdict(compare_exactly([3.0, 2.0], [3.0, 2.0])),
        "float32": {**asdict(band), "runs": runs},
    }
    monkeypatch.setattr(loss_parity, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["loss_parity", "--report"])

    def said() -> str:
        (tmp_path / "loss_parity.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        loss_parity.main()
        return capsys.readouterr().out

    before = said()
    assert "inside at 2 of 2 steps: holds" in before
    assert "ours is strictly between the two at 1, within their gap of the same step at 2" in before
    assert "third" not in before
    third = {"system": "transformers", "threads": 2, "losses": [3.0, 2.5]}
    row["float32"]["third_run"] = third
    assert "a third run of the peer is strictly between the two at 0" in said()
    assert "float64 curve" not in said()
    row["float32"]["float64_run"] = {"losses": [3.0, 2.25]}
    told = "from the float64 curve: bertsmith with 1 threads 1.0e-01 on average and 2.0e-01 at most"
    assert told in said()
    assert "transformers with 2 threads 1.2e-01 on average and 2.5e-01 at most" in said()


def test_one_run_of_the_peer_is_no_band():
    with pytest.raises(ValueError, match="at least 2 runs"):
        compare_with_band([3.0], [[3.0]])
