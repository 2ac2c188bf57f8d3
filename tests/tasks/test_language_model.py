import pytest
import torch

from bertsmith.tasks import language_model
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_model

MODEL = tiny_model()
HIDDEN = torch.randn(7, CONFIG.hidden_size, generator=torch.Generator().manual_seed(1))


def all_logits():
    with torch.no_grad():
        return MODEL.masked_lm(HIDDEN, MODEL.bert.embeddings.token.weight)


@pytest.mark.parametrize("rows", [1, 3, 7, 512])
def test_slices_hold_all_rows_in_order_and_no_row_that_stands_for_nothing(monkeypatch, rows):
    monkeypatch.setattr(language_model, "_ROWS_PER_SLICE", rows)
    with torch.no_grad():
        slices = list(language_model.logits(MODEL, HIDDEN, len(VOCABULARY) - 2))
    assert max(map(len, slices)) == min(rows, 7)
    torch.testing.assert_close(torch.cat(slices), all_logits()[:, :-2])


def test_logits_are_float32_whatever_the_model_computes_in():
    model = tiny_model().bfloat16()
    hidden = HIDDEN.bfloat16()
    with torch.no_grad():
        (found,) = language_model.logits(model, hidden, len(VOCABULARY))
        vectors = model.masked_lm.transform(hidden).float()
        table, bias = model.bert.token_embedding.float(), model.masked_lm.bias.float()
    torch.testing.assert_close(found, vectors @ table.T + bias)
    assert not torch.equal(found, found.bfloat16().float())


@pytest.mark.parametrize("rows", [2, 512])
def test_log_likelihoods_are_the_log_softmax_of_the_tokens_asked_for(monkeypatch, rows):
    monkeypatch.setattr(language_model, "_ROWS_PER_SLICE", rows)
    ids = torch.tensor([3, 9, 0, 5, 5, 20, 11])
    with torch.no_grad():
        found = language_model.log_likelihoods(MODEL, HIDDEN, ids, len(VOCABULARY))
    torch.testing.assert_close(found, all_logits().log_softmax(1)[torch.arange(7), ids])
