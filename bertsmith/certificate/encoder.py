"""Checks of this installation's model code: a tiny BERT, its weights by a formula, golden outputs.

Everything runs in float64 on the plain functions that the fused kernels are compiled from, so a
difference is a wrong definition and not rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.certificate.comparisons import Numbers, compared
from bertsmith.certificate.computed import numbers
from bertsmith.certificate.golden.formula import value_of, variable_shapes
from bertsmith.certificate.originals import tensors_of
from bertsmith.certificate.rows import Row
from bertsmith.certificate.values import Values, golden_values
from bertsmith.checkpoints.names import from_hugging_face
from bertsmith.model.config import Activation, BertConfig
from bertsmith.model.elementwise import activate
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream

TOLERANCE = 1e-10
"""Of golden values, which have 12 decimals."""


def activation_exact() -> Row:
    """GELU's exact form."""
    return _activation("gelu", "GELU, exact form", "paper, section 3; modeling.py, gelu (2018)")


def activation_tanh() -> Row:
    """GELU's tanh form."""
    return _activation("gelu_tanh", "GELU, tanh form", "modeling.py, gelu (since 2019-02-07)")


def embedding_output() -> Row:
    """The sum of three embeddings, normalised."""
    return compared(
        "embeddings and their LayerNorm",
        _hidden_states("gelu")[0],
        _case("gelu").numbers("hidden_states")[0],
        tolerance=TOLERANCE,
        reference="paper, Figure 2; modeling.py, embedding_postprocessor",
    )


def layers_exact() -> Row:
    """Every layer's output with exact GELU, the configuration's default."""
    return _layers("gelu", "layers, exact GELU")


def layers_tanh() -> Row:
    """Every layer's output with the tanh form."""
    return _layers("gelu_tanh", "layers, tanh GELU")


def epsilon() -> Row:
    """Embeddings so small that LayerNorm's epsilon decides."""
    values = golden_values("encoder")
    model = _tiny("gelu", values.number("small_table_factor"))
    return compared(
        "LayerNorm's epsilon of 1e-12",
        numbers(model.bert.hidden_states(_stream())[0]),
        values.numbers("embedding_output_of_small_tables"),
        tolerance=TOLERANCE,
        reference="modeling.py, layer_norm",
    )


def pooler() -> Row:
    """Dense and tanh over the first token."""
    model, stream = _tiny("gelu"), _stream()
    return compared(
        "pooler",
        numbers(model.bert.pool(model.bert(stream), stream)),
        _case("gelu").numbers("pooled_output"),
        tolerance=TOLERANCE,
        reference="paper, section 3.2; modeling.py, BertModel (pooler)",
    )


def masked_lm_head() -> Row:
    """Logits of the chosen rows, the token embedding as decoder."""
    model = _tiny("gelu")
    assert model.masked_lm is not None
    hidden = model.bert(_stream())[torch.from_numpy(_target_rows())]
    return compared(
        "masked-LM head with a tied decoder",
        numbers(model.masked_lm(hidden, model.bert.token_embedding)),
        _case("gelu").numbers("masked_lm_logits"),
        tolerance=TOLERANCE,
        reference="paper, section 3.1; run_pretraining.py, get_masked_lm_output",
    )


def next_sentence_head() -> Row:
    """Two logits a sequence, column 0 for "next"."""
    model, stream = _tiny("gelu"), _stream()
    assert model.next_sentence is not None
    return compared(
        "next-sentence head",
        numbers(model.next_sentence(model.bert.pool(model.bert(stream), stream))),
        _case("gelu").numbers("next_sentence_logits"),
        tolerance=TOLERANCE,
        reference="paper, section 3.1; run_pretraining.py, get_next_sentence_output",
    )


def loss() -> Row:
    """Mean masked-LM loss plus mean next-sentence loss."""
    values, case = golden_values("encoder"), _case("gelu")
    batch = PretrainBatch(
        packed=_packed(),
        target_rows=_target_rows(),
        target_ids=values.integers("masked_lm_ids"),
        next_labels=values.integers("next_sentence_labels").astype(np.int8),
        step_targets=len(values.integers("masked_lm_ids")),
        step_sequences=len(values.integers("next_sentence_labels")),
    )
    row = compared(
        "pre-training loss",
        numbers(_tiny("gelu")(batch).loss),
        case.numbers("loss"),
        tolerance=TOLERANCE,
        reference="paper, appendix A.2; run_pretraining.py, model_fn_builder",
    )
    lower = case.number("loss") - case.number("loss_in_code")
    note = f"; the code adds 1e-5 to the divisor, {lower:.1e} less here"
    return replace(row, found=row.found + note)


CHECKS: tuple[Callable[[], Row], ...] = (
    activation_exact, activation_tanh, embedding_output, layers_exact, layers_tanh, epsilon,
    pooler, masked_lm_head, next_sentence_head, loss,
)  # fmt: skip


def _activation(activation: Activation, name: str, reference: str) -> Row:
    values = golden_values("encoder").at("activations")
    found = activate(torch.from_numpy(values.numbers("values")), activation)
    expected = values.numbers(activation)
    return compared(name, found.numpy(), expected, tolerance=TOLERANCE, reference=reference)


def _layers(activation: Activation, name: str) -> Row:
    return compared(
        name,
        np.stack(_hidden_states(activation)[1:]),
        _case(activation).numbers("hidden_states")[1:],
        tolerance=TOLERANCE,
        reference="paper, section 3; modeling.py, transformer_model",
    )


def _hidden_states(activation: Activation) -> list[Numbers]:
    with torch.enable_grad():  # as in training; `outputs.with_gradients` compares it with answering
        return [numbers(state) for state in _tiny(activation).bert.hidden_states(_stream())]


def _tiny(activation: Activation, table_factor: float = 1.0) -> PretrainModel:
    """The golden model; what its config leaves out is this installation's default."""
    sizes = {name: value.integer() for name, value in golden_values("encoder").items("config")}
    config = BertConfig(
        vocab_size=sizes["vocab_size"],
        hidden_size=sizes["hidden_size"],
        num_hidden_layers=sizes["num_hidden_layers"],
        num_attention_heads=sizes.pop("num_attention_heads"),
        intermediate_size=4 * sizes["hidden_size"],
        max_position_embeddings=sizes["max_position_embeddings"],
    )
    if activation != "gelu":
        config = replace(config, hidden_act=activation)
    model = PretrainModel(config, ("masked_lm", "next_sentence")).double().eval()
    variables = {name: value_of(name, shape) for name, shape in variable_shapes(**sizes).items()}
    for name in variables:
        variables[name] *= table_factor if name.endswith("_embeddings") else 1.0
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state, _ = from_hugging_face(tensors_of(variables), expected)
    model.load_state_dict(state)
    return model


def _packed() -> PackedBatch:
    values = golden_values("encoder")
    return PackedBatch.from_padded(
        values.integers("input_ids"), values.integers("input_mask"), values.integers("segment_ids")
    )


def _stream() -> Stream:
    return Stream.of(_packed())


def _target_rows() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows of the stream that are predicted."""
    places = golden_values("encoder").integers("masked_lm_positions")
    return _packed().starts[places[:, 0]] + places[:, 1]


def _case(activation: Activation) -> Values:
    return golden_values("encoder").at("cases", activation)
