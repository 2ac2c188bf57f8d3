"""Names of the project's models, and which of them a mistyped one was meant to be.

No weights are read and no PyTorch imported, so that a mistake is told at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

_CONFIGS = ("config.json", "bert_config.json")
_OF_A_CLONE = ("mini-en", "mini-ko")
"""Models that every clone of the project has under `models/`, and nobody else."""
_MISTYPED = 0.8
"""A name this similar to a model's is a slip, not another name: one letter in five."""


def project_models() -> Iterator[Path]:
    """`models/` of the checkout that runs, wherever it is called from; then of this directory.

    An installed wheel carries no models, and what lies beside it belongs to other packages.
    """
    project = Path(__file__).parents[2]
    if (project / "pyproject.toml").is_file():
        yield project / "models"
    if Path.cwd() != project:
        yield Path.cwd() / "models"


def is_plain_name(text: str) -> bool:
    """True for what may name a model under `models/`: one part of a path, and not a hidden one."""
    return bool(text) and "/" not in text and "\\" not in text and not text.startswith(".")


def named_places(text: str) -> list[str]:
    """Where a model of this name would lie; none for what is no plain name."""
    return [str(models / text) for models in project_models() if is_plain_name(text)]


def nearest_name(text: str) -> str:
    """'; did you mean ...?', or else the models there are; empty without any."""
    names = [name for name in _names() if name != text]  # itself, without its weights, is no help
    near = difflib.get_close_matches(text, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; models here: {', '.join(names)}" if names else ""


def require_spelt(text: str) -> None:
    """Raises FileNotFoundError for a slip in the name of a model under `models/`.

    A plain name that nearly spells one, and is neither one nor a path, is not looked for on the
    Hub: models there have an owner, as in OWNER/NAME, but for a few old ones. Neither is a model
    that comes with a clone, where there is no clone.
    """
    if not is_plain_name(text) or Path(text).expanduser().exists():
        return
    names = _names()
    if text in _OF_A_CLONE and text not in names:
        raise FileNotFoundError(
            f"no model {text!r}: there is no {' and no '.join(named_places(text))}; it comes with "
            f"a clone of the project only: work in the clone's folder, or name the path of its "
            f"models/{text}"
        )
    near = difflib.get_close_matches(text, names, n=1, cutoff=_MISTYPED)
    if near and text not in names:
        raise FileNotFoundError(
            f"no model {text!r}: there is no {' and no '.join(named_places(text))}; did you mean "
            f"{near[0]!r}? (one of the Hugging Face Hub has an owner's name before it, as in "
            f"OWNER/{text})"
        )


def _names() -> list[str]:
    found = {
        entry.name
        for models in project_models() if models.is_dir()
        for entry in models.iterdir() if any((entry / config).is_file() for config in _CONFIGS)
    }  # fmt: skip
    return sorted(found)
