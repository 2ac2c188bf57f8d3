"""Tests run the plain functions; those marked `compiled` run the kernels torch builds of them."""

import pytest
import torch

from bertsmith.fusion import unfused


@pytest.fixture(autouse=True)
def _plain_unless_compiled(request):
    """Compiling costs seconds a function; test_fusion.py shows that both ways are equal."""
    with unfused("compiled" not in request.keywords):
        yield


@pytest.fixture(autouse=True, scope="session")
def _two_threads_at_most():
    """pytest-xdist runs a process a core: more threads than that only wait for each other."""
    torch.set_num_threads(1)
