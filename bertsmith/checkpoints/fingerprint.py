"""A model in memory -> a fingerprint of its weights: equal for equal numbers, wherever they lay."""

from __future__ import annotations

import hashlib

from bertsmith.checkpoints.store import Loaded


def weights_fingerprint(loaded: Loaded) -> str:
    """SHA-256 in hexadecimal over names and values of all parameters, a task's head included."""
    digest = hashlib.sha256()
    parts = {**loaded.model.state_dict()}
    if loaded.head is not None:
        parts |= {f"head.{name}": each for name, each in loaded.head.state_dict().items()}
    for name in sorted(parts):
        digest.update(name.encode())
        digest.update(parts[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
