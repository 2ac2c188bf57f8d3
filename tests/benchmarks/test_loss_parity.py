import pytest

from benchmarks.loss_parity import compare_exactly, compare_with_band


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


def test_one_run_of_the_peer_is_no_band():
    with pytest.raises(ValueError, match="at least 2 runs"):
        compare_with_band([3.0], [[3.0]])
