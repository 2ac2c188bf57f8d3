"""What `convert` writes loads in the libraries it is written for, and computes the same there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import store
from bertsmith.commands.convert import Convert, convert
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.pooling import sentence_vectors
from bertsmith.model.stream import Stream
from tests.checkpoints.tiny import tiny_config, tiny_model, tiny_tokenizer
from tests.model.plain import random_packed
from tests.parity import real_weights

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

BOTH = ("masked_lm", "next_sentence")
TEXTS = ["Paris is the capital of France.", "my dog", "he likes playing the cat ?"]
# fp32 sums in another order; logits here reach several units.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def saved(folder: Path, *objectives, with_pooler=False, **changes) -> str:
    """A tiny model's directory; weights as `tiny_model` has them, the biases drawn too."""
    config = tiny_config(**changes)
    model = PretrainModel(config, objectives, with_pooler=with_pooler)
    torch.manual_seed(2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    store.save(folder, model, config, tiny_tokenizer())
    return str(folder)


def converted(folder: Path, model: str, reader: str, **choices) -> str:
    convert(Convert(model=model, out=folder, to=reader, **choices))
    return str(folder)


def ours(model: str, packed: PackedBatch) -> dict[str, torch.Tensor]:
    parts, stream = store.load(model).model, Stream.of(packed)
    with torch.no_grad():
        found = {"hidden": parts.bert(stream)}
        if parts.bert.pooler is not None:
            found["pooled"] = parts.bert.pool(found["hidden"], stream)
        if parts.masked_lm is not None:
            embedding = parts.bert.embeddings.token.weight
            found["words"] = parts.masked_lm(found["hidden"], embedding)
        if parts.next_sentence is not None:
            found["pairs"] = parts.next_sentence(found["pooled"])
    return found


def theirs(kind: str, model: str, packed: PackedBatch) -> tuple[dict[str, torch.Tensor], dict]:
    """What a class of transformers gives on real tokens, and its report on the tensors it read."""
    peer, report = getattr(transformers, kind).from_pretrained(model, output_loading_info=True)
    ids, mask, types = (torch.from_numpy(array) for array in packed.to_padded())
    with torch.no_grad():
        found = peer.eval()(input_ids=ids, attention_mask=mask, token_type_ids=types)
    named = {
        "last_hidden_state": "hidden", "pooler_output": "pooled", "logits": "words",
        "prediction_logits": "words", "seq_relationship_logits": "pairs",
    }  # fmt: skip
    rows = {ours_: found[name] for name, ours_ in named.items() if found.get(name) is not None}
    return {
        name: each[mask.bool()] if each.ndim == 3 else each for name, each in rows.items()
    }, report


@pytest.mark.parametrize(
    ("objectives", "changes", "architecture", "kinds"),
    [
        (BOTH, {}, "BertForPreTraining", ("AutoModel", "AutoModelForMaskedLM", "PreTraining")),
        (("masked_lm",), {}, "BertForMaskedLM", ("AutoModelForMaskedLM",)),
        ((), {"with_pooler": True}, "BertModel", ("AutoModel",)),
        ((), {}, "BertModel", ("AutoModel",)),
        (
            ("left_to_right_lm",), {"direction": "left_to_right"}, "BertLMHeadModel",
            ("AutoModelForCausalLM",),
        ),
        ((), {"direction": "left_to_right"}, "BertModel", ("AutoModel",)),
        (
            BOTH, {"tie_word_embeddings": False, "hidden_act": "gelu_tanh"}, "BertForPreTraining",
            ("AutoModelForMaskedLM", "PreTraining"),
        ),
    ],
)  # fmt: skip
def test_transformers_loads_every_kind_and_computes_the_same(
    tmp_path, objectives, changes, architecture, kinds
):
    first = saved(tmp_path / "first", *objectives, **changes)
    out = converted(tmp_path / "out", first, "hugging-face")
    config = transformers.AutoConfig.from_pretrained(out)
    assert config.architectures == [architecture]
    assert config.is_decoder == (changes.get("direction") == "left_to_right")
    assert config.tie_word_embeddings == changes.get("tie_word_embeddings", True)
    packed = random_packed([5, 24, 1, 11], config.vocab_size)
    expected = ours(first, packed)
    for kind in kinds:
        kind = "AutoModelForPreTraining" if kind == "PreTraining" else kind
        found, report = theirs(kind, out, packed)
        lacks = {name for name in report["missing_keys"] if "pooler" not in name}
        assert not lacks, kind
        if "pooled" not in expected:
            found.pop("pooled", None)  # drawn at random by transformers, which says so
        assert found.keys() & expected.keys()
        for name, rows in found.items():
            torch.testing.assert_close(rows, expected[name], **TOLERANCE, msg=f"{kind} {name}")


def test_a_decoder_of_its_own_goes_there_and_back_with_its_own_bias(tmp_path):
    """Untied, transformers adds the decoder's bias and reads the head's no more."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(
        saved(tmp_path / "tied", *BOTH), tie_word_embeddings=False
    )
    peer = transformers.BertForPreTraining(config)
    for name in ("cls.predictions.bias", "cls.predictions.decoder.bias"):
        torch.nn.init.normal_(peer.get_parameter(name))
    peer.save_pretrained(tmp_path / "first")
    tiny_tokenizer().save(tmp_path / "first")
    first, packed = str(tmp_path / "first"), random_packed([9, 20], config.vocab_size)
    expected, _ = theirs("BertForPreTraining", first, packed)
    torch.testing.assert_close(ours(first, packed)["words"], expected["words"], **TOLERANCE)
    out = converted(tmp_path / "out", first, "hugging-face")
    found, report = theirs("BertForPreTraining", out, packed)
    assert not report["missing_keys"]
    torch.testing.assert_close(found["words"], expected["words"], **TOLERANCE)


def test_the_tokenizer_is_read_as_it_is(tmp_path):
    out = converted(tmp_path / "out", saved(tmp_path / "first", *BOTH), "hugging-face")
    peer = transformers.AutoTokenizer.from_pretrained(out)
    for text in TEXTS:
        found = tiny_tokenizer().encode(text, "the dog was hairy .")
        assert peer(text, "the dog was hairy .")["input_ids"] == found.ids.tolist()


@pytest.mark.parametrize(
    "choices", [{}, {"normalize": True}, {"pooling": ("cls", "max", "mean")}], ids=str
)
def test_sentence_transformers_gives_equal_vectors(tmp_path, choices):
    library = pytest.importorskip("sentence_transformers")
    first = saved(tmp_path / "first", *BOTH)
    out = converted(tmp_path / "out", first, "sentence-transformers", **choices)
    peer = library.SentenceTransformer(out, device="cpu")
    assert peer.max_seq_length == 24
    long = "the dog likes the cat . " * 9
    vectors = peer.encode([*TEXTS, long])
    loaded = store.load(out)
    encodings = [loaded.tokenizer.encode(text) for text in (*TEXTS, long)]
    rows = [[*each.ids[:23], loaded.tokenizer.sep_id][:24] if len(each.ids) > 24 else each.ids
            for each in encodings]  # fmt: skip
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    ids = np.concatenate(rows).astype(np.int32)
    packed = PackedBatch(
        token_ids=ids, segment_ids=0 * ids, lengths=lengths, keys=np.arange(len(rows))
    )
    stream = Stream.of(packed)
    assert loaded.sentence is not None
    with torch.no_grad():
        expected = sentence_vectors(loaded.model.bert(stream), stream, loaded.sentence)
    assert vectors.shape == (4, 32 * len(loaded.sentence.pooling))
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reader", ["hugging-face", "sentence-transformers", "onnx"])
def test_the_python_of_the_card_runs(tmp_path, monkeypatch, capsys, reader):
    for name in {"sentence-transformers": ["sentence_transformers"], "hugging-face": [],
                 "onnx": ["onnxruntime", "onnxscript"]}[reader]:  # fmt: skip
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    converted(Path("out"), saved(tmp_path / "first", *BOTH), reader)
    said = capsys.readouterr().out
    (code,) = re.findall("```python\n(.*?)```", Path("out/README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    if reader == "onnx":
        assert "checked: largest difference from the packed model" in said
        assert re.search(r"last_hidden_state \(2, \d+, 32\)", shown)
    if reader == "sentence-transformers":
        assert "tensor([[1.0000" in shown
    if reader == "hugging-face":
        assert "token_str" in shown


def test_right_to_left_has_no_class_there(tmp_path):
    first = tmp_path / "first"
    model = tiny_model("right_to_left_lm", direction="right_to_left")
    store.save(first, model, tiny_config(direction="right_to_left"), tiny_tokenizer())
    with pytest.raises(ValueError, match="has no right-to-left BERT"):
        converted(tmp_path / "out", str(first), "hugging-face")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Real sentence vectors: the model's directory, its texts and what its own library gives."""
    library = pytest.importorskip("sentence_transformers")
    directory, texts = real_weights.directory(), real_weights.texts()
    peer = library.SentenceTransformer(str(directory), device="cpu")
    return str(directory), texts, peer.encode(texts)


def test_a_real_model_keeps_its_vectors_and_every_tensor(real, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    directory, texts, expected = real
    out = converted(tmp_path / "st", directory, "sentence-transformers")
    found = library.SentenceTransformer(out, device="cpu").encode(texts)
    np.testing.assert_array_equal(found, expected)
    google = converted(tmp_path / "tf", directory, "tensorflow")
    back = converted(tmp_path / "hf", google, "hugging-face")
    first, last = (store.load(each).model.state_dict() for each in (directory, back))
    assert first.keys() == last.keys()
    assert all(torch.equal(first[name], last[name]) for name in first)


@pytest.mark.slow
def test_the_graph_of_a_real_model_gives_its_sentence_vectors(real, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    directory, texts, expected = real
    out = converted(tmp_path / "onnx", directory, "onnx", outputs=("sentence_embedding",))
    peer = transformers.AutoTokenizer.from_pretrained(out)
    longest = store.load(directory).sentence.max_tokens
    inputs = peer(texts, padding=True, truncation=True, max_length=longest, return_tensors="np")
    session = runtime.InferenceSession(f"{out}/model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["sentence_embedding"], dict(inputs))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
