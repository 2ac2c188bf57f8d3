"""Names -> fields of the structures that functions in C++ take. It does not know what they hold."""

from __future__ import annotations

import ctypes


def pointers(*names: str) -> list[tuple[str, type[ctypes.c_void_p]]]:
    """Fields that say where something lies."""
    return [(name, ctypes.c_void_p) for name in names]


def int64s(*names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    """Fields that are whole numbers."""
    return [(name, ctypes.c_int64) for name in names]
