"""A fingerprint knows every weight, and nothing of where it lay."""

from __future__ import annotations

from pathlib import Path

import torch

from bertsmith.checkpoints import store
from bertsmith.checkpoints.fingerprint import weights_fingerprint
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer


def test_equal_weights_have_one_fingerprint_wherever_they_lie(tmp_path: Path) -> None:
    for name in ("a", "b"):
        store.save(tmp_path / name, tiny_model(), CONFIG, tiny_tokenizer())
    found = {weights_fingerprint(store.load(tmp_path / name)) for name in ("a", "b")}
    assert len(found) == 1


def test_a_single_changed_number_is_another_fingerprint(tmp_path: Path) -> None:
    store.save(tmp_path / "a", tiny_model(), CONFIG, tiny_tokenizer())
    loaded = store.load(tmp_path / "a")
    before = weights_fingerprint(loaded)
    for name, tensor in loaded.model.state_dict().items():
        first = tensor.view(-1)[:1]
        kept = first.clone()
        first.copy_(torch.nextafter(kept, kept + 1))
        assert weights_fingerprint(loaded) != before, name
        first.copy_(kept)
    assert weights_fingerprint(loaded) == before
