"""Every check of the model code fails on code that is wrong in its way."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional

from bertsmith.certificate import encoder
from bertsmith.certificate.encoder import CHECKS
from bertsmith.model import block_attention, block_cells, elementwise, objectives
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.feed_forward import FeedForward
from bertsmith.model.heads import LanguageModelHead, NextSentenceHead
from tests.certificate.breaking import Break, names, status

tanh_form = partial(functional.gelu, approximate="tanh")


def exact_is_tanh(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(elementwise._ACTIVATIONS, "gelu", tanh_form)


def tanh_is_exact(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(elementwise._ACTIVATIONS, "gelu_tanh", functional.gelu)


def default_is_tanh(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "BertConfig", partial(BertConfig, hidden_act="gelu_tanh"))


def default_epsilon_is_1e_5(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "BertConfig", partial(BertConfig, layer_norm_eps=1e-5))


def default_epsilon_is_1e_30(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "BertConfig", partial(BertConfig, layer_norm_eps=1e-30))


def no_segments(patch: pytest.MonkeyPatch) -> None:
    def forward(self, stream):
        rows = self.token(stream.token_ids) + self.position(stream.positions)
        return elementwise.norm_and_drop(rows, None, 0.0, self.norm)

    patch.setattr(Embeddings, "forward", forward)


def layers_exchanged(patch: pytest.MonkeyPatch) -> None:
    def hidden_states(self, stream):
        states = [self.embeddings(stream)]
        for layer in reversed(self.layers):
            states.append(layer(states[-1], stream))
        return tuple(states)

    patch.setattr(Bert, "hidden_states", hidden_states)


def scores_divided_by_k(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(block_attention, "_scale", lambda queries: 1.0 / queries.shape[-1])


def queries_are_keys(patch: pytest.MonkeyPatch) -> None:
    whole = block_cells.heads_of

    def exchanged(*given):
        return whole(*given)[[1, 0, 2]]

    patch.setattr(block_cells, "heads_of", exchanged)


def no_residual(patch: pytest.MonkeyPatch) -> None:
    def forward(self, hidden, row_keys):
        inner = elementwise.activate(self.up(hidden), self.activation)
        return elementwise.norm_and_drop(self.down(inner), None, 0.0, self.norm)

    patch.setattr(FeedForward, "forward", forward)


def pooler_without_tanh(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bert, "pool_rows", lambda self, rows: self.pooler(rows))


def pooler_of_the_last_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bert, "pooled_rows", lambda self, stream: stream.last_rows)


def head_without_norm(patch: pytest.MonkeyPatch) -> None:
    def transform(self, rows):
        return elementwise.activate(self.dense(rows), self.activation)

    patch.setattr(LanguageModelHead, "transform", transform)


def head_without_bias(patch: pytest.MonkeyPatch) -> None:
    def forward(self, rows, embedding):
        return self.transform(rows) @ embedding.T

    patch.setattr(LanguageModelHead, "forward", forward)


def columns_exchanged(patch: pytest.MonkeyPatch) -> None:
    whole = NextSentenceHead.forward
    patch.setattr(NextSentenceHead, "forward", lambda self, rows: whole(self, rows).flip(1))


def divided_as_in_the_code(patch: pytest.MonkeyPatch) -> None:
    whole = objectives.language_model_loss

    def loss(rows, embedding, bias, targets, **how):
        total, correct = whole(rows, embedding, bias, targets, **how)
        return total * len(targets) / (len(targets) + 1e-5), correct

    patch.setattr(objectives, "language_model_loss", loss)


def no_next_sentence_loss(patch: pytest.MonkeyPatch) -> None:
    def silent(self, rows, batch):
        return torch.zeros(()), torch.zeros(())

    patch.setattr(objectives.PretrainModel, "_next_sentence", silent)


BREAKS: list[tuple[str, Break]] = [
    ("activation_exact", exact_is_tanh),
    ("activation_tanh", tanh_is_exact),
    ("embedding_output", no_segments),
    ("embedding_output", default_epsilon_is_1e_5),
    ("layers_exact", default_is_tanh),
    ("layers_exact", layers_exchanged),
    ("layers_exact", scores_divided_by_k),
    ("layers_exact", queries_are_keys),
    ("layers_exact", no_residual),
    ("layers_tanh", tanh_is_exact),
    ("layers_tanh", layers_exchanged),
    ("epsilon", default_epsilon_is_1e_5),
    ("epsilon", default_epsilon_is_1e_30),
    ("pooler", pooler_without_tanh),
    ("pooler", pooler_of_the_last_token),
    ("masked_lm_head", head_without_norm),
    ("masked_lm_head", head_without_bias),
    ("masked_lm_head", exact_is_tanh),
    ("next_sentence_head", columns_exchanged),
    ("loss", divided_as_in_the_code),
    ("loss", no_next_sentence_loss),
]


@pytest.mark.parametrize("check", CHECKS)
def test_this_installation_passes(check) -> None:
    assert status(check) == "passed"


@pytest.mark.parametrize(("name", "break_it"), BREAKS)
def test_a_check_fails_on_code_that_is_wrong_in_its_way(
    name: str, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert status(vars(encoder)[name]) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    assert {name for name, _ in BREAKS} == names(CHECKS)
