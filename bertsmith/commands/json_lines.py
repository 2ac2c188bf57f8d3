"""Answers for programs: one JSON object a line on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping


def print_json(content: Mapping[str, object]) -> None:
    """Prints a line; an output that is not UTF-8 gets JSON's own escapes, and loses nothing."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(content, ensure_ascii=not is_utf8))
