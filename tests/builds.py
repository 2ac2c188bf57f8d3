"""Libraries as another processor, or another process, would have them."""

import functools

import pytest

from bertsmith import compiler, native
from bertsmith.compiler import Build


def forget_builds() -> None:
    """As in another process: nothing is loaded, found out or said."""
    for cached in (compiler._loaded, compiler._warn, native._loaded, native.build):
        cached.cache_clear()


def with_vectors_of(vector_bytes: str, patch: pytest.MonkeyPatch) -> None:
    """From now on everything is built for an older processor, or for one of another kind."""
    narrow = Build(options=(*native._OPTIONS, f"-DVECTOR_BYTES={vector_bytes}"))
    patch.setattr(native, "build", functools.cache(lambda: narrow))
    forget_builds()
