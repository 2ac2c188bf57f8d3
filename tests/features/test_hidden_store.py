"""What is kept of a frozen encoder is what it gives, made once and whole, found by its like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from bertsmith.data.items import Item, packs
from bertsmith.features.hidden_store import HiddenStore, encoder_fingerprint, key_of
from bertsmith.files import InUseError, lock
from bertsmith.model.bert import Bert
from bertsmith.model.heads import reduced_states
from bertsmith.model.stream import Stream
from bertsmith.model.task import Reads
from bertsmith.packing import Packing
from bertsmith.train.device import cast_
from tests.checkpoints.tiny import tiny_model

CPU = torch.device("cpu")
DRAWS = np.random.default_rng(0)
LENGTHS = [5, 1, 24, 11, 7, 7]
ITEMS = [
    Item(
        token_ids=DRAWS.integers(5, 20, length).astype(np.int32),
        segment_ids=np.zeros(length, np.int32),
        num_unread=0,
    )
    for length in LENGTHS
]


def store(folder: Path, numbers: Sequence[int], reads: Reads = "tokens", dtype=torch.float32):
    lengths = np.array(LENGTHS if reads == "tokens" else [1] * len(LENGTHS))
    return HiddenStore(folder, reads, tuple(numbers), lengths, 32, dtype)


def filled(kept: HiddenStore, bert: Bert) -> HiddenStore:
    packing = Packing(device=CPU, dtype=kept.dtype, values_per_token=64, tokens_per_batch=30)
    kept.fill(bert, packing, ITEMS, lambda share: None, {"encoder": "tiny"})
    return kept


def expected(bert: Bert, number: int, reads: Reads) -> list[torch.Tensor]:
    """Of each layer the rows of one sequence, read alone."""
    ((_, packed),) = packs([ITEMS[number]], 100)
    stream = Stream.of(packed)
    with torch.inference_mode():
        return list(reduced_states(bert, stream, bert.hidden_states(stream), reads))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reads", ["tokens", "pooled", "mean"])
def test_what_is_read_is_what_the_encoder_gives_in_any_order(
    tmp_path: Path, reads: Reads, dtype: torch.dtype
) -> None:
    model = tiny_model()
    cast_(model, "bf16" if dtype == torch.bfloat16 else "fp32")
    kept = filled(store(tmp_path / "k", (2, 0), reads, dtype), model.bert)
    assert kept.missing() == ()
    wanted = np.array([4, 2, 1, 2])
    found = kept.read(wanted, CPU)
    of_items = [expected(model.bert, number, reads) for number in wanted]
    for layer, rows in zip((2, 0), found, strict=True):
        assert rows.dtype == dtype
        alone = torch.cat([each[layer] for each in of_items])
        close = 1e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(rows, alone, rtol=close, atol=close)


def test_only_layers_that_are_missing_are_made_and_their_bits_are_the_same(tmp_path: Path) -> None:
    bert = tiny_model().bert
    first = filled(store(tmp_path / "k", (1,)), bert)
    before = {path: path.stat().st_mtime_ns for path in first.directory.glob("*.npy")}
    more = filled(store(tmp_path / "k", (0, 1, 2)), bert)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    together = filled(store(tmp_path / "other", (0, 1, 2)), bert)
    files = [sorted(each.directory.glob("*.npy")) for each in (more, together)]
    for one, other in zip(*files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert (more.num_bytes, len(before)) == (sum(LENGTHS) * 32 * 4, 1)


def test_nothing_is_read_where_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert = tiny_model().bert
    before = filled(store(tmp_path / "k", (0, 2)), bert)
    files = {path: path.read_bytes() for path in before.directory.glob("*.npy")}
    monkeypatch.setattr(Bert, "chosen_states", None)
    again = filled(store(tmp_path / "k", (2,)), bert)
    assert {path: path.read_bytes() for path in again.directory.glob("*.npy")} == files


def test_an_encoder_that_fails_leaves_no_file_and_a_second_process_is_told(tmp_path: Path) -> None:
    bert = tiny_model().bert
    kept = store(tmp_path / "k", (0, 7))
    with pytest.raises(ValueError, match="states are numbered 0 to 2"):
        filled(kept, bert)
    assert list(kept.directory.glob("*.npy")) == []
    assert list(kept.directory.glob(".*.part")) == []
    with lock(kept.directory / ".lock"), pytest.raises(InUseError, match="in use by another"):
        filled(store(tmp_path / "k", (0,)), bert)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    kept = filled(store(tmp_path / "k", (1,)), tiny_model().bert)
    path = kept.directory / "tokens-01.npy"
    path.write_bytes(path.read_bytes()[:-64])
    again = store(tmp_path / "k", (1,))
    with pytest.raises(ValueError, match=r"tokens-01.npy is damaged \(.*: delete it"):
        again.read(np.array([0]), CPU)
    np.save(path, np.zeros((3, 32), np.float32))
    with pytest.raises(ValueError, match=r"damaged \(\(3, 32\) of float32, expected \(55, 32\)"):
        store(tmp_path / "k", (1,)).read(np.array([0]), CPU)


def test_a_key_is_of_the_encoder_the_sequences_and_the_machine_alone() -> None:
    bert = tiny_model().bert
    encoder = encoder_fingerprint(bert)
    assert encoder == encoder_fingerprint(tiny_model("masked_lm").bert)
    bert.pooler = None
    assert encoder == encoder_fingerprint(bert)
    assert encoder != encoder_fingerprint(tiny_model(seed=4).bert)
    assert encoder != encoder_fingerprint(
        tiny_model("next_sentence", direction="left_to_right").bert
    )
    keys = {
        key_of(*each)
        for each in (
            (encoder, ITEMS, "torch.float32", {"threads": "1"}),
            (encoder, ITEMS, "torch.float32", {"threads": "2"}),
            (encoder, ITEMS, "torch.bfloat16", {"threads": "1"}),
            (encoder, ITEMS, "torch.float32, products in float16", {"threads": "1"}),
            (encoder, ITEMS[:-1], "torch.float32", {"threads": "1"}),
            ("another", ITEMS, "torch.float32", {"threads": "1"}),
        )
    }
    assert len(keys) == 6
