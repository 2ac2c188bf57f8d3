import pytest

from benchmarks import gpu_step
from benchmarks.gpu_step import STEPS, Kernel, lines


def test_the_longest_kernels_stand_first_and_all_are_counted():
    found = [
        Kernel("short", 2 * STEPS, 500.0 * STEPS),
        Kernel("long", STEPS, 2000.0 * STEPS),
        Kernel("shorter", STEPS, 250.0 * STEPS),
    ]
    assert lines(found, most=1) == [
        "    2.000 ms      1 x long",
        "    0.750 ms of 2 others",
        "    2.750 ms of all",
    ]


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("sys.argv", ["gpu_step"])
    with pytest.raises(SystemExit) as ended:
        gpu_step.main()
    assert ended.value.code == 2
    assert "cuda" in capsys.readouterr().err
