from types import SimpleNamespace

import pytest

from benchmarks import gpu_kernels
from benchmarks.gpu_kernels import lines
from benchmarks.gpu_step_kernels import Kernel, _tried


def test_a_kernel_is_timed_as_it_is_and_with_other_constants():
    module = SimpleNamespace(TILE=1)
    kernel = Kernel(
        name="a kernel",
        num_bytes=10**9,
        run=lambda: module.TILE,
        others=_tried(module, {"TILE": (2, None)}),
    )
    found = list(lines(kernel, 1e12, lambda run: run() / 1e3, has_others=True))
    assert [" ".join(line.split()) for line in found] == [
        "a kernel as it is 1000 us 1.00 GB 100.0% of a copy",
        "a kernel TILE 2 2000 us 1.00 GB 50.0% of a copy",
        "a kernel None failed: unsupported operand type(s) for /: 'NoneType' and 'float'",
    ]
    assert module.TILE == 1
    assert len(list(lines(kernel, 1e12, lambda run: run(), has_others=False))) == 1


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("sys.argv", ["gpu_kernels"])
    with pytest.raises(SystemExit) as ended:
        gpu_kernels.main()
    assert ended.value.code == 2
    assert "cuda" in capsys.readouterr().err
