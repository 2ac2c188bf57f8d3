"""A model that a person typed -> whether its name is mistyped, told before anything is imported."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bertsmith.checkpoints.project_models import require_spelt

_OPTION = "--model"


def require_typed(arguments: Sequence[str]) -> None:
    """`require_spelt` for --model, or else for the first word: commands begin with their model."""
    is_named = any(word.partition("=")[0] == _OPTION for word in arguments)
    if arguments and not is_named and not arguments[0].startswith("-"):
        require_spelt(arguments[0])
    require_option(arguments)


def require_option(arguments: Sequence[str]) -> None:
    """`require_spelt` for --model alone, where the first word names something else."""
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        if name == _OPTION:
            require_spelt(value if equals else following)
