"""Checkpoints cross over to `transformers` and back, and compute the same there."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import store
from bertsmith.fusion import unfused
from bertsmith.model.stream import Stream
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_config, tiny_model, tiny_tokenizer

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

TEXTS = ["Paris is the capital of France.", "my dog", "he likes playing the cat ?"]
# fp32 sums in another order; logits here reach several units.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def tokens():
    encodings = [tiny_tokenizer().encode(text, "the dog was hairy .") for text in TEXTS]
    width = max(len(encoding.ids) for encoding in encodings)
    ids = np.zeros((len(encodings), width), dtype=np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        real = slice(0, len(encoding.ids))
        ids[row, real], mask[row, real], types[row, real] = encoding.ids, 1, encoding.segments
    return ids, mask, types


def ours(model):
    """Language-model logits of every real token, and next-sentence logits where there is a head."""
    stream = Stream.of(PackedBatch.from_padded(*tokens()))
    with torch.no_grad(), unfused():
        hidden = model.bert(stream)
        words = model.masked_lm(hidden, model.bert.embeddings.token.weight)
        if model.next_sentence is None:
            return words, None
        return words, model.next_sentence(model.bert.pool(hidden, stream))


def theirs(model):
    ids, mask, types = (torch.from_numpy(array) for array in tokens())
    with torch.no_grad():
        output = model.eval()(input_ids=ids, attention_mask=mask, token_type_ids=types)
    words = output.prediction_logits if "prediction_logits" in output else output.logits
    return words[mask.bool()], output.get("seq_relationship_logits")


def peer_config(**changes):
    return transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=24, initializer_range=0.3, **changes,
    )  # fmt: skip


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_what_transformers_writes_computes_the_same_here(tmp_path, activation):
    torch.manual_seed(0)
    peer = transformers.BertForPreTraining(peer_config(hidden_act=activation))
    torch.nn.init.normal_(peer.cls.predictions.bias)
    peer.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    loaded = store.load(tmp_path)
    assert loaded.notes == ()
    assert loaded.model.objectives == ("masked_lm", "next_sentence")
    for found, expected in zip(ours(loaded.model), theirs(peer), strict=True):
        torch.testing.assert_close(found, expected, **TOLERANCE)


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_bias_of_the_decoder_counts_as_it_does_in_transformers(tmp_path, is_tied):
    torch.manual_seed(0)
    transformers.BertForPreTraining(peer_config(tie_word_embeddings=is_tied)).save_pretrained(
        tmp_path
    )
    tiny_tokenizer().save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = torch.randn(len(VOCABULARY))
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    peer = transformers.BertForPreTraining.from_pretrained(tmp_path)
    loaded = store.load(tmp_path)
    torch.testing.assert_close(ours(loaded.model)[0], theirs(peer)[0], **TOLERANCE)
    assert "overruled by cls.predictions.decoder.bias" in loaded.notes[0]


def test_a_decoder_that_transformers_writes_computes_the_same_here(tmp_path):
    torch.manual_seed(0)
    peer = transformers.BertLMHeadModel(peer_config(is_decoder=True))
    peer.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    loaded = store.load(tmp_path)
    assert loaded.config.direction == "left_to_right"
    torch.testing.assert_close(ours(loaded.model)[0], theirs(peer)[0], **TOLERANCE)


def test_a_pooled_vector_of_a_decoder_is_told_to_be_the_first_tokens_in_transformers(tmp_path):
    torch.manual_seed(0)
    peer = transformers.BertModel(peer_config(is_decoder=True)).eval()
    peer.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    ids, mask, types = (torch.from_numpy(array) for array in tokens())
    loaded = store.load(tmp_path)
    stream = Stream.of(PackedBatch.from_padded(*tokens()))
    with torch.no_grad(), unfused():
        pooled = peer(input_ids=ids, attention_mask=mask, token_type_ids=types).pooler_output
        first = loaded.model.bert.pool_rows(loaded.model.bert(stream, stream.first_rows))
    torch.testing.assert_close(first, pooled, **TOLERANCE)
    torch.testing.assert_close(pooled, pooled[:1].expand_as(pooled), **TOLERANCE)
    (note,) = loaded.notes
    assert "all texts have one pooled vector there" in note


@pytest.mark.parametrize(
    ("kind", "objectives", "direction"),
    [
        ("BertForPreTraining", ("masked_lm", "next_sentence"), "bidirectional"),
        ("AutoModelForMaskedLM", ("masked_lm", "next_sentence"), "bidirectional"),
        ("AutoModelForMaskedLM", ("masked_lm",), "bidirectional"),
        ("AutoModelForCausalLM", ("left_to_right_lm",), "left_to_right"),
    ],
)
def test_what_is_written_here_computes_the_same_in_transformers(
    tmp_path, kind, objectives, direction
):
    model = tiny_model(*objectives, direction=direction)
    torch.nn.init.normal_(model.masked_lm.bias)
    store.save(tmp_path / "m", model, tiny_config(direction=direction), tiny_tokenizer())
    peer = getattr(transformers, kind).from_pretrained(tmp_path / "m")
    words, pairs = theirs(peer)
    torch.testing.assert_close(words, ours(model)[0], **TOLERANCE)
    if pairs is not None:
        torch.testing.assert_close(pairs, ours(model)[1], **TOLERANCE)


def test_transformers_misses_no_weight_and_takes_the_stored_dtype(tmp_path):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), dtype=torch.bfloat16)
    peer, report = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "m", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert peer.dtype == torch.bfloat16


def test_the_tokenizer_written_beside_the_weights_gives_equal_ids(tmp_path):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer())
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    for text in TEXTS:
        found = tiny_tokenizer().encode(text, "the dog was hairy .")
        expected = peer(text, "the dog was hairy .")
        assert found.ids.tolist() == expected["input_ids"]
        assert found.segments.tolist() == expected["token_type_ids"]


def test_transformers_refuses_a_right_to_left_model(tmp_path):
    model = tiny_model("right_to_left_lm", direction="right_to_left")
    config = tiny_config(direction="right_to_left")
    store.save(tmp_path / "m", model, config, tiny_tokenizer())
    with pytest.raises(ValueError, match="bert_right_to_left"):
        transformers.AutoConfig.from_pretrained(tmp_path / "m")
