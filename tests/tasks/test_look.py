import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch
from bertsmith.model.stream import Stream
from bertsmith.tasks.look import Look, answer, encode
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer
from tests.model.plain import plain_bias, plain_hidden
from tests.tasks.predictors import predictor_of

TOKENIZER = tiny_tokenizer()
OBJECTIVE = {
    "bidirectional": "masked_lm",
    "left_to_right": "left_to_right_lm",
    "right_to_left": "right_to_left_lm",
}


def looked(bert, *sides):
    question = encode(sides, TOKENIZER, 24)
    item = question.item
    stream = Stream.of(PackedBatch.from_padded(item.token_ids[None], None, item.segment_ids[None]))
    with torch.inference_mode():
        return answer(question, bert, stream)


def plain_look(bert, token_ids, segment_ids):
    """The definition: hidden states of ever more layers, and each head's softmax on its own."""
    config = bert.config
    hidden = [
        plain_hidden(
            SimpleNamespace(config=config, embeddings=bert.embeddings, layers=bert.layers[:number]),
            token_ids,
            segment_ids,
        )
        for number in range(config.num_hidden_layers + 1)
    ]
    attention = []
    for layer, states in zip(bert.layers, hidden[:-1], strict=True):
        query, key, _ = layer.attention.qkv(states).split(config.hidden_size, dim=1)
        bias = plain_bias(len(token_ids), config.direction, states.dtype)
        heads = []
        for head in range(config.num_attention_heads):
            columns = slice(head * config.head_size, (head + 1) * config.head_size)
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(config.head_size)
            heads.append(torch.softmax(scores + bias, dim=1))
        attention.append(torch.stack(heads))
    return torch.stack(attention), torch.stack(hidden)


@pytest.mark.parametrize("direction", OBJECTIVE)
def test_attention_and_hidden_states_equal_the_plain_definition(direction):
    bert = tiny_model(OBJECTIVE[direction], direction=direction).bert
    seen = looked(bert, "the dog likes my cat .", "he likes playing")
    item = seen.question.item
    with torch.no_grad():
        attention, hidden = plain_look(
            bert, torch.from_numpy(item.token_ids).long(), torch.from_numpy(item.segment_ids).long()
        )
    assert seen.attention.dtype == seen.hidden.dtype == np.float32
    np.testing.assert_allclose(seen.attention, attention.numpy(), atol=2e-6)
    np.testing.assert_allclose(seen.hidden, hidden.numpy(), atol=2e-5)
    np.testing.assert_allclose(seen.attention.sum(-1), 1, atol=1e-5)


def test_every_token_keeps_its_characters():
    texts = ("The dog", "he likes playing.")
    question = encode(texts, TOKENIZER, 24)
    assert question.tokens == (
        "[CLS]",
        "the",
        "dog",
        "[SEP]",
        "he",
        "likes",
        "play",
        "##ing",
        ".",
        "[SEP]",
    )
    of_first, of_second = question.spans[1:3], question.spans[4:9]
    assert [texts[0][start:end] for start, end in of_first] == ["The", "dog"]
    assert [texts[1][start:end] for start, end in of_second] == ["he", "likes", "play", "ing", "."]
    assert question.spans[[0, 3, 9]].tolist() == [[0, 0]] * 3


def test_what_does_not_fit_is_counted_and_spans_stay_in_step():
    question = encode(["dog " * 30 + "cat"], TOKENIZER, 10)
    assert len(question.tokens) == 10
    assert question.item.num_unread == 23
    assert question.spans[1:9].tolist() == [[4 * place, 4 * place + 3] for place in range(8)]
    pair = encode(["dog " * 30, "cat is hairy"], TOKENIZER, 10)
    assert pair.tokens == ("[CLS]", *["dog"] * 4, "[SEP]", "cat", "is", "hairy", "[SEP]")
    assert pair.item.num_unread == 26
    assert pair.spans[6:9].tolist() == [[0, 3], [4, 6], [7, 12]]


def look_of(weights):
    """A look at `[CLS] dog cat [SEP]` with these (L, A, 4, 4) weights."""
    return Look(
        question=encode(["dog cat"], TOKENIZER, 24),
        attention=np.asarray(weights, np.float32),
        hidden=np.zeros((2, 4, 3), np.float32),
    )


def test_the_strongest_links_come_first():
    weights = np.full((2, 2, 4, 4), 0.1)
    weights[1, 0, 2, 3] = 0.7
    weights[1, 1, 1, 2] = 0.5
    seen = look_of(weights)
    links = [(link.query, link.key) for link in seen.links(2, 1, top_k=2)]
    assert links[0] == (2, 3)
    mean = seen.links(2, top_k=2)
    assert [(link.query, link.key) for link in mean] == [(2, 3), (1, 2)]
    assert [link.weight for link in mean] == pytest.approx([0.4, 0.3])
    without = seen.links(2, with_special=False)
    assert (without[0].query, without[0].key) == (1, 2)
    assert {link.key for link in without} | {link.query for link in without} == {1, 2}
    assert len(without) == 4


@pytest.mark.parametrize(
    ("layer", "head", "name"), [(0, 1, "layer"), (3, 1, "layer"), (1, 3, "head")]
)
def test_a_layer_or_head_that_is_not_there_is_named(layer, head, name):
    with pytest.raises(ValueError, match=f"{name} must be 1 to 2 for this model, found"):
        look_of(np.zeros((2, 2, 4, 4))).links(layer, head)


def test_what_is_looked_into_is_what_other_answers_are_made_of():
    predictor = predictor_of()
    answer = predictor.look("The dog", "he likes [MASK]")
    assert answer.question.tokens[:5] == ("[CLS]", "the", "dog", "[SEP]", "he")
    assert "[MASK]" not in answer.question.tokens
    assert answer.hidden.shape == (3, len(answer.question.tokens), CONFIG.hidden_size)
    as_mask = predictor.look("he likes [MASK]", special_tokens_in_text=True)
    assert as_mask.question.tokens == ("[CLS]", "he", "likes", "[MASK]", "[SEP]")
    last = predictor.sentence_vectors(["the dog"])[0].vector
    np.testing.assert_allclose(predictor.look("the dog").hidden[-1].mean(0), last, atol=1e-6)
