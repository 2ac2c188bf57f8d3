"""What there is room for beside CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from bertsmith.model import gpu_room


def test_room_is_what_is_free_beside_the_most_that_was_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = torch.device("cuda")
    figures = {"mem_get_info": (30, 100), "memory_reserved": 50, "max_memory_allocated": 40}
    for name, figure in figures.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, figure=figure: figure)
    assert [gpu_room.has_room(device, count) for count in (0, 36, 37)] == [True, True, False]
    assert gpu_room.has_room(torch.device("cpu"), 10**15)


def test_bytes_of_one_place_are_counted_once() -> None:
    tensor, other = torch.zeros(10), torch.zeros(3, dtype=torch.float64)
    assert gpu_room.bytes_of([[tensor, None, other], [tensor.view(2, 5), tensor[3:]]]) == 40 + 24
