import copy
import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from bertsmith.train.config import OptimizerConfig
from bertsmith.train.optimizer import Optimizer
from tests.conftest import BOTH_KERNELS

Arrays = dict[str, npt.NDArray[np.float64]]


def small_model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Embedding(40, 24), nn.LayerNorm(24), nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 3)
    )
    for parameter in layers.parameters():
        parameter.data = torch.randn_like(parameter)
    return layers.to(dtype)


def random_gradients(model: nn.Module, step: int, size: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.grad = (values * size).to(parameter.dtype)


def weights_of(model: nn.Module) -> Arrays:
    return {name: p.detach().double().numpy().copy() for name, p in model.named_parameters()}


def gradients_of(model: nn.Module) -> Arrays:
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: gradient.double().numpy().copy() for name, gradient in found.items()}


class PlainOptimizer:
    """The definition, parameter by parameter, in NumPy and float64."""

    def __init__(self, weights: Arrays, config: OptimizerConfig) -> None:
        self.weights, self.config = weights, config
        self.first = {name: np.zeros_like(w) for name, w in weights.items()}
        self.second = {name: np.zeros_like(w) for name, w in weights.items()}
        self.times = dict.fromkeys(weights, 0)

    def step(self, gradients: Arrays, rate: float) -> float:
        config = self.config
        norm = float(np.sqrt(sum((g**2).sum() for g in gradients.values())))
        clip = config.clip_norm
        factor = 1.0 if clip is None else clip / max(norm, clip)
        for name, gradient in gradients.items():
            weight, decays = self.weights[name], self.weights[name].ndim >= 2
            self.times[name] += 1
            first = config.beta1 * self.first[name] + (1 - config.beta1) * gradient * factor
            second = (
                config.beta2 * self.second[name] + (1 - config.beta2) * (gradient * factor) ** 2
            )
            self.first[name], self.second[name] = first, second
            if config.name != "bert_adam":
                first = first / (1 - config.beta1 ** self.times[name])
                second = second / (1 - config.beta2 ** self.times[name])
            update = first / (np.sqrt(second) + config.epsilon)
            update += (config.weight_decay if decays else 0.0) * weight
            ratio = 1.0
            if config.name == "lamb" and decays:
                norms = np.linalg.norm(weight), np.linalg.norm(update)
                ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            self.weights[name] = weight - rate * ratio * update
        return norm


def rate_of(step: int) -> float:
    return 1e-3 * step


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert_adam", marks=pytest.mark.compiled, id="bert_adam-compiled"),
        pytest.param("lamb", marks=pytest.mark.compiled, id="lamb-compiled"),
        "bert_adam",
        "adamw",
        "lamb",
    ],
)
def test_float64_updates_equal_the_plain_definition(name: str) -> None:
    model = small_model()
    config = OptimizerConfig(name=name)
    plain, optimizer = (
        PlainOptimizer(weights_of(model), config),
        Optimizer(model.named_parameters(), config),
    )
    for step in range(30):
        random_gradients(model, step, size=0.01 + 0.01 * step)
        expected = plain.step(gradients_of(model), rate_of(step))
        assert float(optimizer.step(rate_of(step))) == pytest.approx(expected, rel=1e-13)
    for key, weight in weights_of(model).items():
        np.testing.assert_allclose(weight, plain.weights[key], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_bert_adam_equals_stock_adamw_with_transformed_rates(
    dtype: torch.dtype, bound: float
) -> None:
    model = small_model(dtype)
    stock_model = copy.deepcopy(model)
    config = OptimizerConfig(clip_norm=None)
    optimizer = Optimizer(model.named_parameters(), config)
    stock = torch.optim.AdamW([{"params": [p]} for p in stock_model.parameters()])
    for step in range(1, 50):
        random_gradients(model, step)
        random_gradients(stock_model, step)
        c1, c2 = 1 - config.beta1**step, 1 - config.beta2**step
        for group in stock.param_groups:
            decay = config.weight_decay if group["params"][0].dim() >= 2 else 0.0
            group["lr"] = 1e-3 * c1 / c2**0.5
            group["eps"] = config.epsilon / c2**0.5
            group["weight_decay"] = decay * c2**0.5 / c1
        stock.step()
        optimizer.step(1e-3)
    # Weights are about 1: the float32 bound is the rounding of fifty updates.
    for ours, theirs in zip(model.parameters(), stock_model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=bound * 10, atol=bound)


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
def test_half_precision_weights_are_the_rounded_float32_masters() -> None:
    model = small_model(torch.bfloat16)
    model[1].float()
    config = OptimizerConfig()
    plain = PlainOptimizer(weights_of(model), config)
    optimizer = Optimizer(model.named_parameters(), config)
    for step in range(10):
        random_gradients(model, step)
        plain.step(gradients_of(model), 1e-3)
        optimizer.step(1e-3)
    for name, parameter in model.named_parameters():
        master = optimizer.masters()[name]
        assert master.dtype == torch.float32
        np.testing.assert_allclose(master.numpy(), plain.weights[name], rtol=0, atol=2e-6)
        assert torch.equal(parameter.detach(), master.to(parameter.dtype))
    assert model[1].weight.dtype == torch.float32


@pytest.mark.parametrize("name", ["bert_adam", "adamw"])
def test_parameter_without_gradient_is_skipped_as_torch_does(name: str) -> None:
    model = small_model()
    config = OptimizerConfig(name=name, clip_norm=None)
    plain = PlainOptimizer(weights_of(model), config)
    optimizer = Optimizer(model.named_parameters(), config)
    for step in range(6):
        random_gradients(model, step)
        if step % 2:
            model[2].weight.grad = model[2].bias.grad = None
        before = model[2].weight.detach().clone()
        plain.step(gradients_of(model), 1e-3)
        optimizer.step(1e-3)
        assert torch.equal(before, model[2].weight) == bool(step % 2)
    for key, weight in weights_of(model).items():
        np.testing.assert_allclose(weight, plain.weights[key], rtol=0, atol=1e-12)


def test_adamw_equals_torchs_own_also_where_gradients_are_missing() -> None:
    model = small_model()
    twin = copy.deepcopy(model)
    optimizer = Optimizer(
        model.named_parameters(), OptimizerConfig(name="adamw", clip_norm=None, weight_decay=0.0)
    )
    stock = torch.optim.AdamW(twin.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.0)
    for step in range(9):
        for each in (model, twin):
            random_gradients(each, step)
            each[4].weight.grad = None if step % 3 else each[4].weight.grad
        optimizer.step(1e-3)
        stock.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_weight_decay_spares_norms_and_biases_and_takes_embeddings() -> None:
    model = small_model()
    before = weights_of(model)
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(0.1)
    for name, weight in weights_of(model).items():
        share = 1 - 0.1 * 0.01 if weight.ndim == 2 else 1.0
        np.testing.assert_allclose(weight, before[name] * share, rtol=1e-14)
    assert np.all(weights_of(model)["0.weight"] != before["0.weight"])


def test_clipping_follows_tensorflows_rule() -> None:
    # With clip / (norm + 1e-6) the step of a gradient of norm 1 or 2 would be smaller by 1e-6.
    for norm in (0.5, 1.0, 2.0):
        parameter = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        optimizer = Optimizer([("weight", parameter)], OptimizerConfig(epsilon=1.0))
        parameter.grad = torch.full((4,), norm / 2, dtype=torch.float64)
        assert float(optimizer.step(1.0)) == pytest.approx(norm, rel=1e-15)
        gradient = min(norm, 1.0) / 2
        expected = -(0.1 * gradient) / ((0.001 * gradient**2) ** 0.5 + 1.0)
        assert parameter[0].item() == pytest.approx(expected, rel=1e-14)


def test_tied_parameters_are_taken_once_and_frozen_ones_not_at_all() -> None:
    tied, frozen = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2), requires_grad=False)
    named = [("in.weight", tied), ("out.weight", tied), ("frozen", frozen)]
    optimizer = Optimizer(named, OptimizerConfig())
    assert list(optimizer.masters()) == ["in.weight"]
    assert optimizer.parameters() == [tied]


def test_state_round_trip_continues_to_the_bit() -> None:
    model = small_model(torch.bfloat16)
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig(name="adamw"))
    for step in range(3):
        random_gradients(model, step)
        optimizer.step(1e-2)
    kept = {name: tensor.clone() for name, tensor in optimizer.state().items()}
    fresh_model = small_model(torch.bfloat16)
    fresh = Optimizer(fresh_model.named_parameters(), OptimizerConfig(name="adamw"))
    fresh.load_state(kept)
    for step in range(3, 6):
        for each, stepper in ((model, optimizer), (fresh_model, fresh)):
            random_gradients(each, step)
            stepper.step(1e-2)
    mine, theirs = optimizer.state(), fresh.state()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for one, other in zip(model.parameters(), fresh_model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_state_of_another_model_is_refused_with_every_problem_named() -> None:
    optimizer = Optimizer([("a", nn.Parameter(torch.ones(2)))], OptimizerConfig())
    state = optimizer.state()
    del state["exp_avg.a"]
    state |= {"exp_avg.b": torch.ones(2), "exp_avg_sq.a": torch.ones(3)}
    with pytest.raises(ValueError, match=r"missing exp_avg\.a; unexpected exp_avg\.b; .*\(3,\)"):
        optimizer.load_state(state)


def fp16_parameter() -> tuple[nn.Parameter, Optimizer]:
    parameter = nn.Parameter(torch.ones(8, 8, dtype=torch.float16))
    return parameter, Optimizer([("weight", parameter)], OptimizerConfig())


def test_overflowing_float16_step_changes_only_the_loss_scale() -> None:
    parameter, optimizer = fp16_parameter()
    before = {name: tensor.clone() for name, tensor in optimizer.state().items()}
    parameter.grad = torch.full((8, 8), torch.inf, dtype=torch.float16)
    optimizer.step(1e-2)
    assert optimizer.skipped
    changed = [k for k, tensor in optimizer.state().items() if not torch.equal(tensor, before[k])]
    assert changed == ["loss_scale"]
    assert float(optimizer.state()["loss_scale"]) == 32_768.0


def test_a_loss_scale_is_left_out_where_numbers_are_none_of_float16() -> None:
    _, scaled = fp16_parameter()
    assert scaled.scaler is not None
    scaled.scaler.scale = 8.0
    plain = Optimizer([("weight", nn.Parameter(torch.zeros(8, 8)))], OptimizerConfig())
    plain.load_state(scaled.state())
    assert torch.equal(plain.state()["weight.weight"], torch.ones(8, 8))
    _, again = fp16_parameter()
    again.load_state(plain.state())
    assert again.scaler is not None
    assert again.scaler.scale > 8.0
    again.load_state(scaled.state())
    assert again.scaler.scale == 8.0
    half = {name: value for name, value in scaled.state().items() if name != "clean_steps"}
    with pytest.raises(ValueError, match="missing clean_steps"):
        again.load_state(half)


def test_float16_gradients_are_divided_by_the_loss_scale() -> None:
    parameter, optimizer = fp16_parameter()
    assert optimizer.scaler is not None
    parameter.grad = torch.full((8, 8), optimizer.scaler.scale / 8, dtype=torch.float16)
    assert float(optimizer.step(1e-2)) == pytest.approx(1.0)
    assert not optimizer.skipped
    assert torch.allclose(optimizer.state()["exp_avg.weight"], torch.tensor(0.1 / 8))


def test_moving_a_parameter_after_the_optimizer_was_made_is_refused() -> None:
    model = small_model()
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig())
    random_gradients(model, 0)
    model[2].weight.data = model[2].weight.data.clone()
    with pytest.raises(ValueError, match=r"2\.weight was moved or replaced after the optimizer"):
        optimizer.step(1e-3)


def test_a_step_without_any_gradient_is_refused() -> None:
    optimizer = Optimizer(small_model().named_parameters(), OptimizerConfig())
    with pytest.raises(ValueError, match="no parameter has a gradient"):
        optimizer.step(1e-3)


def test_runs_end_where_gradients_are_missing_or_of_another_type_or_count() -> None:
    """Of seven weights side by side."""
    named = [(str(number), nn.Parameter(torch.zeros(64, 2).bfloat16())) for number in range(7)]
    optimizer = Optimizer(named, OptimizerConfig())
    for number, (_, parameter) in enumerate(named):
        if number == 4:
            parameter.grad_dtype = torch.float32
        if number != 2:
            parameter.grad = torch.ones(64, 2, dtype=[torch.bfloat16, torch.float32][number == 4])
    [group] = optimizer._groups
    group.pieces[6].updates = 1
    runs = list(group.runs())
    found = [[piece.name for piece in run.pieces] for run in runs]
    assert found == [["0", "1"], ["3"], ["4"], ["5"], ["6"]]
    assert [len(run.gradient.numbers) for run in runs] == [2, 1, 1, 1, 1]


def test_a_gradient_summed_in_float32_updates_half_precision_weights() -> None:
    parameter = nn.Parameter(torch.zeros(3, 3, dtype=torch.bfloat16))
    optimizer = Optimizer([("weight", parameter)], OptimizerConfig(clip_norm=None))
    parameter.grad_dtype = torch.float32
    values: Tensor = torch.linspace(1.0, 1.001, 9).reshape(3, 3)
    parameter.grad = values.clone()
    optimizer.step(1e-2)
    torch.testing.assert_close(optimizer.state()["exp_avg.weight"], values * 0.1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("beta1", 1.0),
        ("epsilon", -1.0),
        ("epsilon", 0.0),
        ("clip_norm", 0.0),
        ("clip_norm", math.nan),
        ("learning_rate", math.nan),
    ],
)
def test_values_that_cannot_train_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .* found {value}"):
        OptimizerConfig(**{field: value})


def test_the_state_of_another_model_is_refused_in_a_line_that_can_be_read() -> None:
    def optimizer_of(width: int, count: int) -> Optimizer:
        named = [
            (f"layer.{number}", torch.nn.Parameter(torch.zeros(width))) for number in range(count)
        ]
        return Optimizer(named, OptimizerConfig())

    with pytest.raises(
        ValueError, match=r"the optimizer's state does not fit the model"
    ) as refused:
        optimizer_of(3, 40).load_state(optimizer_of(4, 50).state())
    told = str(refused.value)
    assert "unexpected" in told.partition(";")[0]
    assert told.endswith("and 154 more")  # 40 and 120 of 160 entries, but for the six that are told
    assert len(told) < 400


@pytest.mark.parametrize("change", ["step", "state"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_who_goes_back_through_weights_that_have_changed_is_told(
    dtype: torch.dtype, change: str
) -> None:
    model = nn.Linear(8, 8).to(dtype)
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig())
    rows = torch.ones(2, 8, dtype=dtype, requires_grad=True)
    before, late = model(rows).sum(), model(rows).sum()
    before.backward()
    if change == "step":
        optimizer.step(1e-3)
    else:
        optimizer.load_state({name: tensor.clone() for name, tensor in optimizer.state().items()})
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late.backward()


def test_parameters_made_in_inference_mode_are_refused() -> None:
    with torch.inference_mode():
        model = nn.Linear(8, 8)
    with pytest.raises(ValueError, match="parameter weight was made in inference mode"):
        Optimizer(model.named_parameters(), OptimizerConfig())
