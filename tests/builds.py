"""Libraries as another processor, or another process, would have them."""

import contextlib
import dataclasses
import functools
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from bertsmith import compiler, native, processors
from bertsmith.libraries import Build
from bertsmith.model.cpu_attention import SOURCE

IMITATION = "-DIMITATION"
"""In CXX where instructions are imitated (`tests.imitated`)."""
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")


def forget_builds() -> None:
    """As in another process: nothing is loaded, found out or said."""
    for cached in (compiler._loaded, compiler._warn, compiler.builds, native._loaded, native.build):
        cached.cache_clear()
    compiler._TRIED.clear()


def with_vectors_of(vector_bytes: str, patch: pytest.MonkeyPatch) -> None:
    """From now on everything is built for an older processor, or for one of another kind."""
    narrow = Build(options=(*processors._OPTIONS, f"-DVECTOR_BYTES={vector_bytes}"))
    patch.setattr(native, "build", functools.cache(lambda: narrow))
    forget_builds()


def in_a_cache_of_its_own(tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For a fixture: where libraries are built meanwhile; nothing loaded before or kept after."""
    patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    patch.setenv("BERTSMITH_FUSION", "1")
    patch.delenv("CXX", raising=False)
    forget_builds()
    yield tmp_path / "cache" / "bertsmith"
    forget_builds()


def fastest_in(
    module: ModuleType, when: Callable[..., bool] = lambda *_, **__: True
) -> Callable[..., None]:
    """A fixture for every test: as on a processor where the module's functions are the fastest."""

    @pytest.fixture(autouse=True)
    def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "has_fast_products", when)

    return anywhere


def learning_in(module: ModuleType) -> Callable[..., None]:
    """The same where layers learn in one call, in float32 of any size by any vectors too."""

    @pytest.fixture(autouse=True)
    def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("has_fast_products", "has_long_vectors"):
            monkeypatch.setattr(module, name, lambda *_, **__: True)
        monkeypatch.setattr(module, "MOST_NUMBERS", math.inf)

    return anywhere


def names_of_calls(module: ModuleType, patch: pytest.MonkeyPatch) -> list[str]:
    """Of the functions in C++ that a module calls from now on, as they are called."""
    names: list[str] = []
    call: Callable[..., float] = module.call

    def named(source: Path, name: str, *rest: object) -> float:
        names.append(name)
        return call(source, name, *rest)

    patch.setattr(module, "call", named)
    return names


def has_tiles() -> bool:
    """Whether what is built for this processor multiplies in its matrix unit."""
    half = torch.zeros(1).bfloat16()
    return native.takes(SOURCE, half) and native.call(SOURCE, "multiplies", half) == 2.0


@contextlib.contextmanager
def tiles_refused() -> Iterator[None]:
    """Inside the system keeps back the matrix unit that is imitated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", f"{os.environ['CXX']} -DTILES_ARE_REFUSED")
        forget_builds()
        try:
            assert not has_tiles()
            yield
        finally:
            forget_builds()


def tiles_are_imitated() -> bool:
    """Whether plain C++ stands in for a matrix unit."""
    return f"{IMITATION}_OF_TILES" in os.environ.get("CXX", "")


@contextlib.contextmanager
def without_tiles() -> Iterator[None]:
    """Inside everything is built as for a processor without a matrix unit."""
    built = native.build()
    vectors = tuple(each for each in built.instructions if not each.startswith("-mamx"))
    narrow = dataclasses.replace(built, instructions=vectors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "build", lambda: narrow)
        if tiles_are_imitated():  # others have it built so
            patch.delenv("CXX")
        native._loaded.cache_clear()
        try:
            yield
        finally:
            native._loaded.cache_clear()
