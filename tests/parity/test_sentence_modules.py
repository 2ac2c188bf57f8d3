"""Sentence vectors of whole chains of modules are the library's own, however they are made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from bertsmith.checkpoints import store
from bertsmith.commands.convert import Convert, convert
from bertsmith.commands.extract import extract
from bertsmith.commands.extract_options import Extract
from bertsmith.features.plan import FeaturePlan
from bertsmith.inference import Predictor
from bertsmith.model.sentence import Pooling
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

library = pytest.importorskip("sentence_transformers")
modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
base = pytest.importorskip("sentence_transformers.base.modules")
pytestmark = pytest.mark.parity

TEXTS = [
    "paris is the capital of france .", "", "a", "my hairy dog likes playing .",
    "the cat was hairy ? " * 9,
]  # fmt: skip
TOLERANCE = {"rtol": 1e-5, "atol": 2e-6}  # fp32 sums in another order
TANH, IDENTITY = torch.nn.Tanh(), torch.nn.Identity()
DENSES: dict[str, dict[str, object]] = {
    "as LaBSE": {"pooling": "cls", "dense": {"activation_function": TANH}, "is_normalized": True},
    "wider": {"pooling": "mean", "dense": {"out_features": 48, "activation_function": IDENTITY}},
    "of all": {"pooling": list(get_args(Pooling)), "dense": {"out_features": 8, "bias": False}},
}
CHAINS = DENSES | {
    mode: {"pooling": mode, "is_normalized": mode == "weightedmean"}
    for mode in ("mean_sqrt_len_tokens", "weightedmean", "lasttoken")
}


def built(folder: Path, *, pooling, dense=None, is_normalized=False) -> str:
    """A directory as the library saves it, of a random model."""
    store.save(folder / "encoder", tiny_model(), CONFIG, tiny_tokenizer())
    chain = [base.Transformer(str(folder / "encoder"), max_seq_length=24)]
    chain += [modules.Pooling(CONFIG.hidden_size, pooling_mode=pooling)]
    if dense is not None:
        torch.manual_seed(5)
        width = chain[-1].get_embedding_dimension()
        chain += [base.Dense(**{"in_features": width, "out_features": CONFIG.hidden_size, **dense})]
    chain += [base.Normalize()] if is_normalized else []
    library.SentenceTransformer(modules=chain, device="cpu").save(str(folder / "m"))
    return str(folder / "m")


@pytest.fixture(scope="module", params=CHAINS)
def model(request, tmp_path_factory):
    """The directory, and what the library gives for TEXTS."""
    directory = built(tmp_path_factory.mktemp("models"), **CHAINS[request.param])
    return directory, theirs(directory)


def theirs(directory: str):
    return library.SentenceTransformer(directory, device="cpu").encode(TEXTS)


def ours(directory: str):
    with pytest.warns(UserWarning, match="1 of 5 texts were longer"):
        return Predictor.load(directory, precision="fp32").embed(TEXTS)


def test_vectors_are_the_librarys(model):
    directory, expected = model
    assert store.load(directory).notes == ()
    np.testing.assert_allclose(ours(directory), expected, **TOLERANCE)


def test_extracted_vectors_are_the_librarys(model, tmp_path):
    directory, expected = model
    file, out = tmp_path / "a.jsonl", tmp_path / "a.npz"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    extract(Extract(file=file, model=directory, out=out, plan=FeaturePlan(per="text")))
    with np.load(out) as arrays:
        np.testing.assert_allclose(arrays["vectors"], expected, **TOLERANCE)


def test_a_converted_directory_gives_the_library_the_same_vectors(model, tmp_path):
    directory, expected = model
    out = tmp_path / "out"
    convert(Convert(model=directory, out=out, to="sentence-transformers"))
    np.testing.assert_allclose(theirs(str(out)), expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(ours(str(out)), expected, **TOLERANCE)


@pytest.mark.parametrize("chain", ["of all", pytest.param("as LaBSE", marks=pytest.mark.slow)])
def test_an_onnx_graph_gives_the_librarys_vectors(tmp_path, chain):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    directory = built(tmp_path, **DENSES[chain])
    expected = theirs(directory)
    out = tmp_path / "out"
    convert(Convert(model=directory, out=out, to="onnx", outputs=("sentence_embedding",)))
    tokenizer = library.SentenceTransformer(directory, device="cpu").tokenizer
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=24, return_tensors="np")
    session = runtime.InferenceSession(f"{out}/model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["sentence_embedding"], dict(inputs))
    np.testing.assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_directory_in_a_half_type_loads_there_with_its_dense_layer(tmp_path, dtype):
    directory = built(tmp_path, **DENSES["as LaBSE"])
    out = tmp_path / "out"
    convert(Convert(model=directory, out=out, to="sentence-transformers", dtype=dtype))
    found, expected = theirs(str(out)), theirs(directory)
    assert found.shape == expected.shape
    cosines = (found * expected).sum(axis=1)
    np.testing.assert_allclose(cosines, 1, atol=2e-2)  # a few digits through every layer


def test_what_hugging_face_does_not_hold_is_told(tmp_path, capsys):
    directory = built(tmp_path, **DENSES["as LaBSE"])
    convert(Convert(model=directory, out=tmp_path / "hf", to="hugging-face"))
    assert (
        "note: left out: the pooling of sentence vectors and a dense layer to 32 (tanh) after it, "
        "with its weights; hugging-face does not hold them" in capsys.readouterr().err
    )


def test_a_pooling_that_is_typed_leaves_the_dense_layer_out_and_says_so(tmp_path, capsys):
    directory = built(tmp_path, **DENSES["wider"])
    lost = "vectors are made without a dense layer to 48, which belongs to the model's own pooling"
    out = tmp_path / "out"
    convert(Convert(model=directory, out=out, to="sentence-transformers", pooling=("cls",)))
    assert lost in capsys.readouterr().err
    back = store.load(out)
    assert back.sentence is not None
    assert (back.sentence.pooling, back.sentence.dense, back.dense) == (("cls",), None, None)
