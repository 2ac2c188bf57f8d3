"""The functions of `cpu_recurrence.cpp`, beside the definition in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from bertsmith.batch import PackedBatch
from bertsmith.compiler import without_native
from bertsmith.model import cpu_recurrence, recurrence
from bertsmith.model.bilstm import BiLstm
from bertsmith.model.recurrence import recur
from bertsmith.model.stream import Stream
from bertsmith.native import pointer
from tests.builds import NEEDS_COMPILER, fastest_in
from tests.model.plain import random_packed

# Sums of up to 24 places in float32, sigmoid and tanh within 6e-7.
WITHIN = 2e-5
LENGTHS = [5, 1, 24, 11, 24, 3, 7]

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_recurrence)


def drawn(num_cells: int, width: int, *, is_projected: bool, counts: list[int]) -> list[Tensor]:
    """Sums with three spare rows behind them, and the matrices; of float32 values, in float64."""
    generator = torch.manual_seed(num_cells)
    shapes = [(sum(counts) + 3, 4 * num_cells), (4 * num_cells, width)]
    shapes += [(width, num_cells)] if is_projected else []
    return [
        (torch.randn(shape, generator=generator) / shape[1] ** 0.5).double() for shape in shapes
    ]


def counts_of(lengths: list[int]) -> list[int]:
    return [sum(length > place for length in lengths) for place in range(max(lengths))]


def values_and_gradients(inputs: list[Tensor], counts: list[int]) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in inputs]
    sums, across, *down = leaves
    states = recur(sums, across, down[0] if down else None, counts)
    towards = torch.randn(states.shape, generator=torch.manual_seed(1), dtype=torch.float64)
    return [states, *torch.autograd.grad((states * towards).sum(), leaves)]


@pytest.mark.parametrize("lengths", [LENGTHS, [1], [3] * 50], ids=str)
@pytest.mark.parametrize(
    ("num_cells", "width", "is_projected"),
    [
        (3, 3, False),
        (16, 16, False),
        (100, 100, False),
        (100, 24, True),
        (16, 70, True),
    ],
)
def test_values_and_gradients_are_those_of_the_definition(
    lengths: list[int], num_cells: int, width: int, is_projected: bool
) -> None:
    counts = counts_of(lengths)
    inputs = drawn(num_cells, width, is_projected=is_projected, counts=counts)
    found = values_and_gradients([each.float() for each in inputs], counts)
    exact = values_and_gradients(inputs, counts)
    assert not found[0][-3:].any()
    assert not found[1][-3:].any()
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours - theirs).abs().max() <= WITHIN * max(1.0, theirs.abs().max().item())


@pytest.mark.parametrize(("num_cells", "width", "is_projected"), [(20, 20, False), (20, 7, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_the_same_where_nothing_is_learned(
    num_cells: int, width: int, is_projected: bool, dtype: torch.dtype
) -> None:
    counts = counts_of(LENGTHS)
    inputs = drawn(num_cells, width, is_projected=is_projected, counts=counts)
    sums, across, *down = (each.to(dtype) for each in inputs)
    learned = recur(sums, across, down[0] if down else None, counts)
    with torch.no_grad():
        found = recur(sums, across, down[0] if down else None, counts)
    assert found.dtype == torch.float32
    assert torch.equal(found, learned)
    exact = recur(sums.double(), across.double(), down[0].double() if down else None, counts)
    assert (found - exact).abs().max() <= WITHIN


def test_small_states_are_as_exact_as_large_ones() -> None:
    sums, across = torch.full((3, 64), 1e-4), torch.zeros(64, 16)
    found, exact = recur(sums, across, None, [3]), recur(sums.double(), across.double(), None, [3])
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=0.0)


def test_it_is_taken_where_it_is_there_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    real = cpu_recurrence.call
    monkeypatch.setattr(
        cpu_recurrence, "call", lambda *given: (called.append(given[1]), real(*given))[1]
    )
    counts = counts_of(LENGTHS)
    exact = drawn(8, 8, is_projected=False, counts=counts)
    single = [each.float() for each in exact]
    values_and_gradients(exact, counts)
    with pytest.raises(RuntimeError, match="same dtype"):
        values_and_gradients([exact[0], single[1]], counts)
    with without_native():
        values_and_gradients(single, counts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values_and_gradients(single, counts)
    assert not called
    values_and_gradients(single, counts)
    assert called == ["recurrence_forward", "recurrence_backward"]
    values_and_gradients([each.bfloat16() for each in single], counts)
    assert len(called) == 4
    with torch.device("meta"):  # what is made by default elsewhere is made here all the same
        assert torch.equal(recur(*single, None, counts), recur(*single, None, counts))
    monkeypatch.setattr(cpu_recurrence, "has_fast_products", lambda *_: False)
    values_and_gradients(single, counts)
    assert len(called) == 6


@pytest.mark.parametrize(
    ("sums", "across", "down", "counts"),
    [
        ((6, 400), (400, 3), None, [3, 3]),
        ((2, 400), (400, 100), None, [3, 3]),
        ((6, 4), (400, 100), None, [3, 3]),
        ((6, 400), (400, 3), (100, 3), [3, 3]),
    ],
)
def test_what_does_not_fit_is_refused(
    sums: tuple[int, int], across: tuple[int, int], down: tuple[int, int] | None, counts: list[int]
) -> None:
    with pytest.raises(AssertionError):
        recur(
            torch.zeros(sums),
            torch.zeros(across),
            None if down is None else torch.zeros(down),
            counts,
        )


def _kept(sums: Tensor, across: Tensor, counts: list[int]) -> tuple[Tensor, ...]:
    return cpu_recurrence.read(sums, across, None, counts, is_learning=True)[1:]


def test_a_sequence_depends_on_no_other_and_on_no_number_of_threads() -> None:
    counts = counts_of([*LENGTHS, *[2] * 60])
    inputs = [each.float() for each in drawn(40, 40, is_projected=False, counts=counts)]
    sums, across = inputs
    whole = recur(sums, across, None, counts)
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            back = cpu_recurrence.read_back(
                whole.clone(), *_kept(sums, across, counts), across, None, counts
            )
            found.append((recur(sums, across, None, counts), *back))
    finally:
        torch.set_num_threads(threads)
    for each in found:
        assert all(map(torch.equal, each, found[0]))
    assert torch.equal(found[0][0], whole)
    starts = recurrence.starts_of(counts)
    longest = torch.tensor(starts)  # the first row of every place is of the longest
    alone = recur(sums[longest], across, None, [1] * len(counts))
    assert torch.equal(alone, whole[longest])


def test_no_memory_is_an_error() -> None:
    one = torch.zeros(4, 1)
    pointers = tuple(pointer(one) for _ in range(5))
    with pytest.raises(MemoryError, match="no memory to work in"):
        cpu_recurrence._call("recurrence_backward", one, (one, None), [2**58], pointers)


def stream_of(lengths: list[int]) -> Stream:
    return Stream.of(random_packed(lengths, 25))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_native", [True, False])
def test_a_bilstm_and_its_gradients_are_those_of_torchs_lstm(
    dtype: torch.dtype, is_native: bool
) -> None:
    torch.manual_seed(0)
    bilstm = BiLstm(8, 20, 2).to(dtype)
    exact = BiLstm(8, 20, 2).double()
    exact.load_state_dict(bilstm.state_dict())
    hidden = torch.randn(sum(LENGTHS), 8).to(dtype).requires_grad_()
    wide = hidden.detach().double().requires_grad_()
    with without_native(not is_native):
        found = bilstm(hidden, stream_of(LENGTHS))
    parts = [exact.lstm(part[:, None])[0][:, 0] for part in torch.split(wide, LENGTHS)]
    expected = torch.cat(parts)
    towards = torch.randn_like(expected)
    leaves = [[hidden, *bilstm.parameters()], [wide, *exact.parameters()]]
    ours, theirs = (
        torch.autograd.grad((each * towards).sum(), those)
        for each, those in zip((found, expected), leaves, strict=True)
    )
    assert found.dtype == dtype
    assert found.shape == expected.shape
    within = 2e-5 if dtype == torch.float32 else 2e-2
    for one, other in [(found, expected), *zip(ours, theirs, strict=True)]:
        assert (one.double() - other).abs().max() <= within * max(1.0, other.abs().max().item())


def test_tokens_alone_are_read_of_a_stream_with_spare_rows() -> None:
    bilstm = BiLstm(8, 4, 1)
    packed: PackedBatch = random_packed([33, 34], 25)
    hidden = torch.randn(67, 8)
    plain, rounded = (Stream.of(packed, is_rounded=each) for each in (False, True))
    assert rounded.has_spare_rows
    assert torch.equal(bilstm(hidden, plain), bilstm(hidden, rounded))


def test_weights_stay_where_torch_has_them() -> None:
    names = set(BiLstm(8, 4, 2).state_dict())
    assert names == {f"lstm.{name}" for name in nn.LSTM(8, 4, 2, bidirectional=True).state_dict()}
