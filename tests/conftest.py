"""Tests run the plain functions, and functions in C++ where there is a compiler, as users do.

Those marked `compiled` run the kernels that torch builds of plain functions, on a CPU without
functions in C++, beside which there are none. On a GPU plain functions run without our kernels too.

With `--imitate` functions in C++ are those for a processor with a matrix unit, or with products of
float16, whose instructions are imitated: what it runs is tested where there is none.
"""

import os

import pytest
import torch

from bertsmith import fusion
from bertsmith.compiler import without_native
from tests.imitated.processors import KINDS, imitate

try:
    from hypothesis import settings
except ImportError:  # on a GPU, whose tests do without
    pass
else:  # a machine that others share may stall for any while
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")

BOTH_KERNELS = pytest.mark.parametrize(
    "kernels", [pytest.param("compiled", marks=pytest.mark.compiled), "plain"], indirect=True
)


def pytest_addoption(parser):
    parser.addoption("--imitate", choices=KINDS, help="as if this processor had such products")


def pytest_collection_modifyitems(items):
    if "BERTSMITH_DATA" not in os.environ:
        skip = pytest.mark.skip(reason="BERTSMITH_DATA is not set")
        for item in items:
            if item.get_closest_marker("data") is not None:
                item.add_marker(skip)


def pytest_configure(config):
    if kind := config.getoption("--imitate"):
        imitate(kind)


@pytest.fixture
def kernels(request):
    """Named by `BOTH_KERNELS`; the marker decides."""
    return request.param


@pytest.fixture
def full_disk():
    """No file may grow beyond a few bytes, as on a disk without room."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(autouse=True)
def _plain_unless_compiled(request):
    """Compiling costs seconds a function; test_fusion.py shows that both ways are equal."""
    is_compiled, is_on_gpu = (name in request.keywords for name in ("compiled", "gpu"))
    if is_compiled and not fusion.is_available("cuda" if is_on_gpu else "cpu"):
        pytest.skip("no compiler here")
    # A GPU's kernels of ours are switched off with functions in C++, and torch's are beside them.
    with fusion.unfused(not is_compiled), without_native(is_on_gpu is not is_compiled):
        yield


@pytest.fixture(autouse=True, scope="session")
def _two_threads_at_most():
    """pytest-xdist runs a process a core: more threads than that only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def two_threads():
    """Torch computes in two threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
