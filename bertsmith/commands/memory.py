"""An error of a machine without memory -> one line: how much was asked for, and what takes less.

It knows no command but by its options, and imports no PyTorch.
"""

from __future__ import annotations

import re

from bertsmith.commands.accepted_options import options_of

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""What PyTorch says of a GPU, of a CPU, and of Windows."""
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")
_TAKES_LESS = {
    "--accumulation": "a larger --accumulation, which takes a step in parts, with the same result",
    "--batch-size": "a smaller --batch-size",
    "--max-tokens": "a smaller --max-tokens",
    "--phases": "shorter sequences in --phases",
}
_OTHERWISE = "shorter texts, a smaller model, or a machine with more"


def told(error: BaseException, kind: type) -> str | None:
    """What to say of the error; None where it is none of memory.

    `kind` is the dataclass of the command's options.
    """
    said = str(error)
    if not isinstance(error, MemoryError) and not any(sign in said for sign in _SIGNS):
        return None
    found = _ASKED.search(said)
    asked = f" (for {found[1]} more)" if found else ""
    names = {option.name for option in options_of(kind)}
    less = ", or ".join(each for name, each in _TAKES_LESS.items() if name in names)
    return f"out of memory{asked}: what takes less is {less or _OTHERWISE}"
