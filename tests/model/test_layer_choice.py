"""Each row of the paper's Table 7, equal to its plain definition."""

import pytest
import torch

from bertsmith.model.layer_choice import LayerChoice
from bertsmith.model.layer_mix import weighted_sum

NUM_LAYERS, HIDDEN = 5, 8
STATES = torch.randn(NUM_LAYERS + 1, 7, HIDDEN, generator=torch.Generator().manual_seed(1))
WEIGHTS = (0.5, -1.0, 2.0, 0.25)


def joined(name, *weights):
    return LayerChoice(name=name, weights=weights).joined(tuple(STATES))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embeddings", STATES[0]),
        ("second-to-last", STATES[4]),
        ("last", STATES[5]),
        ("sum-last-four", STATES[2] + STATES[3] + STATES[4] + STATES[5]),
        ("weighted-sum-last-four", STATES[2:].mean(dim=0)),
        ("concat-last-four", torch.cat([STATES[2], STATES[3], STATES[4], STATES[5]], dim=1)),
        ("weighted-sum-all", STATES[1:].mean(dim=0)),
        ("weighted-sum-with-embeddings", STATES.mean(dim=0)),
        ("all", torch.cat(list(STATES), dim=1)),
        ("0", STATES[0]),
        ("-1", STATES[5]),
        ("5,0,-2", torch.cat([STATES[5], STATES[0], STATES[4]], dim=1)),
    ],
)
def test_a_choice_equals_its_plain_definition(name, expected):
    found = joined(name)
    torch.testing.assert_close(found, expected)
    choice = LayerChoice(name=name)
    assert choice.width(NUM_LAYERS, HIDDEN) == found.shape[1]
    assert choice.is_sum == ("sum" in name)


def test_weights_go_from_the_lowest_layer_up():
    expected = torch.einsum("s,sth->th", torch.tensor(WEIGHTS), STATES[2:])
    torch.testing.assert_close(joined("weighted-sum-last-four", *WEIGHTS), expected)
    five = (*WEIGHTS, 3.0)
    expected = torch.einsum("s,sth->th", torch.tensor(five), STATES[1:])
    torch.testing.assert_close(joined("weighted-sum-all", *five), expected)
    six = (*five, -2.0)
    expected = torch.einsum("s,sth->th", torch.tensor(six), STATES)
    torch.testing.assert_close(joined("weighted-sum-with-embeddings", *six), expected)


def test_a_sum_of_half_precision_states_is_made_in_float32():
    states = [torch.full((1, 1), 2.0**number, dtype=torch.bfloat16) for number in (0, 10, 0, 0)]
    assert weighted_sum(states, [1.0] * 4).item() == 1027.0  # bfloat16 itself holds 1024 or 1032


def test_learned_weights_get_gradients():
    weights = torch.ones(4, requires_grad=True)
    weighted_sum(tuple(STATES[2:]), weights).sum().backward()
    torch.testing.assert_close(weights.grad, STATES[2:].sum(dim=(1, 2)))


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        ("concat-lst-four", (), r"no layers 'concat-lst-four'; did you mean 'concat-last-four'\?"),
        ("1,,2", (), "no layers '1,,2'; the names are embeddings, second-to-last"),
        ("", (), "no layers ''"),
        ("last", (1.0,), "layers 'last' take no weights"),
        ("sum-last-four", WEIGHTS, "take no weights; those of a weighted sum do"),
        ("weighted-sum-last-four", (1.0, 2.0), "four layers need four weights, found 2"),
    ],
)
def test_what_no_model_has_is_refused_without_one(name, weights, message):
    with pytest.raises(ValueError, match=message):
        LayerChoice(name=name, weights=weights)


@pytest.mark.parametrize(
    ("name", "num_layers", "message"),
    [
        ("concat-last-four", 3, "'concat-last-four' needs a model of at least 4 layers"),
        ("second-to-last", 1, "at least 2 layers"),
        ("0,6", 5, "there is no layer 6: the model has 5"),
        ("-7", 5, "there is no layer -7"),
    ],
)  # fmt: skip
def test_layers_that_this_model_lacks_are_refused(name, num_layers, message):
    with pytest.raises(ValueError, match=message):
        LayerChoice(name=name).numbers(num_layers)


def test_a_model_of_four_layers_has_the_last_four():
    assert LayerChoice(name="concat-last-four").numbers(4) == (1, 2, 3, 4)


def test_other_weights_than_layers_are_refused():
    with pytest.raises(ValueError, match="5 layers need as many weights, found 4"):
        LayerChoice(name="weighted-sum-all", weights=WEIGHTS).numbers(5)
