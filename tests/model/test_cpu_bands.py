"""A source in C++ whose rows lie in bands says so, or is not built."""

from __future__ import annotations

import pytest

from bertsmith import compiler

_SOURCE = """
#define VECTOR_BYTES 16
{told}
#include "model/cpu_bands.h"

extern "C" int64_t band(char* room) {{
  Cutter cutter{{room}};
  return in_bands<float>(cutter, 8, 64).band;
}}
"""
_HEADERS = f"-I{compiler.PACKAGE}"


def test_a_source_with_rows_in_bands_says_so_or_is_not_built():
    if not compiler.is_there():
        pytest.skip("there is no compiler")
    assert compiler.builds(_SOURCE.format(told="#define HAS_BANDS 1"), _HEADERS)
    assert not compiler.builds(_SOURCE.format(told=""), _HEADERS)
