import pytest

from bertsmith import fusion


@pytest.fixture(autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without a compiler, which takes seconds a kernel, unless a test asks for `compiled`."""
    is_compiled = getattr(request, "param", "without compiler") == "compiled"
    if is_compiled and not fusion.is_available():
        pytest.skip("no compiler here")
    monkeypatch.setattr(fusion, "is_available", lambda: is_compiled)


BOTH_KERNELS = pytest.mark.parametrize("kernels", ["compiled", "without compiler"], indirect=True)
