"""A path -> the prefix of the TensorFlow checkpoint that it means.

A checkpoint is several files of one beginning, PREFIX.index and PREFIX.data-00000-of-00001; a name
with `.ckpt` in it is a habit, no rule. It does not open them.

Source: TensorFlow, core/util/tensor_bundle/naming.cc; training/checkpoint_management.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from bertsmith.checkpoints.tensor_bundle import INDEX_SUFFIX, index_of

_FILE_OF_A_BUNDLE = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_STATE_FILE = "checkpoint"
"""Where TensorFlow's Saver names the newest checkpoint of a directory."""
_NEWEST = re.compile(r'^model_checkpoint_path: "(.+)"', re.MULTILINE)
_STEP = re.compile(r"-(\d+)$")


def find_prefix(path: Path) -> Path | None:
    """The prefix of the checkpoint that `path` means; None where there is no sign of one.

    `path` is a prefix, one of its files, or a directory. Of several in a directory the newest is
    taken: the one that TensorFlow's own `checkpoint` file names, else the one with the highest
    step. Raises ValueError, with all names, where neither tells.
    """
    if not path.is_dir():
        prefix = path.with_name(_FILE_OF_A_BUNDLE.sub("", path.name))
        return prefix if index_of(prefix).is_file() or _has_data(prefix) else None
    found = prefixes_in(path)
    return _newest(path, found) if len(found) > 1 else next(iter(found), None)


def prefixes_in(directory: Path) -> list[Path]:
    """Those of every checkpoint in the directory; an index of something else has no data beside."""
    indexes = sorted(directory.glob(f"*{INDEX_SUFFIX}"))
    found = [index.with_name(index.name.removesuffix(INDEX_SUFFIX)) for index in indexes]
    return [prefix for prefix in found if ".ckpt" in prefix.name or _has_data(prefix)]


def _has_data(prefix: Path) -> bool:
    beginning = f"{prefix.name}.data-"
    return prefix.parent.is_dir() and any(
        file.name.startswith(beginning) for file in prefix.parent.iterdir()
    )


def _newest(directory: Path, found: list[Path]) -> Path:
    state = directory / _STATE_FILE
    if state.is_file():
        named = _NEWEST.search(state.read_text(encoding="utf-8", errors="replace"))
        for prefix in found:
            if named and Path(named[1]).name == prefix.name:
                return prefix
    steps = {prefix: match[1] for prefix in found if (match := _STEP.search(prefix.name))}
    if len(steps) < len(found):
        raise ValueError(
            f"{directory} holds {len(found)} TensorFlow checkpoints and does not say which is the "
            f"newest: {', '.join(prefix.name for prefix in found)}; name one of them"
        )
    return max(found, key=lambda prefix: int(steps[prefix]))
