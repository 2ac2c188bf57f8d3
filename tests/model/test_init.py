import torch

from bertsmith.model.config import TINY
from bertsmith.model.init import initialise, truncated_normal
from bertsmith.model.objectives import PretrainModel


def test_draws_are_a_normal_cut_at_two_deviations():
    values = truncated_normal(1_000_000, 0.02, 1, 2)
    assert values.abs().max() <= 0.04
    assert abs(values.mean().item()) < 5 * 0.0176 / 1000
    assert abs(values.std().item() - 0.0176) < 1e-4  # 0.8796 of 0.02: the cut tails are missing


def test_weights_depend_on_seed_and_name_only():
    with_next = PretrainModel(TINY, ("masked_lm", "next_sentence"))
    without = PretrainModel(TINY, ("masked_lm",))
    for model in (with_next, without):
        initialise(model, std=0.02, seed=5)
    for name, parameter in without.named_parameters():
        assert torch.equal(parameter, with_next.get_parameter(name)), name
    initialise(without, std=0.02, seed=6)
    name = "bert.layers.0.attention.qkv.weight"
    assert not torch.equal(without.get_parameter(name), with_next.get_parameter(name))


def test_biases_are_zero_norms_one_and_the_pad_row_is_ordinary():
    model = PretrainModel(TINY, ("masked_lm", "next_sentence"))
    initialise(model, std=0.02, seed=5)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name
    assert model.bert.embeddings.token.weight[0].std() > 0.01
