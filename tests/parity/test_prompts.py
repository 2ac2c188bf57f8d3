"""What is said of a sentence-transformers model's prompts is true beside the library itself."""

import json

import numpy as np
import pytest

from bertsmith.checkpoints import sentence_transformers, store
from bertsmith.commands.convert import Convert, convert
from bertsmith.inference import Predictor
from bertsmith.model.sentence import SentenceConfig
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

library = pytest.importorskip("sentence_transformers")
pytestmark = pytest.mark.parity

PROMPT = "is the dog "
TEXTS = ["paris is the capital of france .", "my cat", "a"]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(params=[True, False], ids=["pooled", "left out"])
def is_pooled(request):
    return request.param


@pytest.fixture
def directory(tmp_path, is_pooled):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer())
    own = SentenceConfig(prompts=(("query", PROMPT),))
    sentence_transformers.write(tmp_path / "m", own, CONFIG.hidden_size)
    file = tmp_path / "m/1_Pooling/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"include_prompt": is_pooled}))
    return str(tmp_path / "m")


def theirs(directory, texts, **options):
    peer = library.SentenceTransformer(directory, device="cpu")
    return peer.encode(texts, **options)


def ours(directory, texts):
    return Predictor.load(directory, precision="fp32").embed(texts)


def test_texts_without_a_prompt_have_the_librarys_vectors(directory):
    np.testing.assert_allclose(ours(directory, TEXTS), theirs(directory, TEXTS), **TOLERANCE)


def test_the_note_advises_a_prompt_by_hand_only_where_it_gives_the_librarys_vectors(
    directory, is_pooled
):
    (note,) = store.load(directory).notes
    by_hand = ours(directory, [PROMPT + text for text in TEXTS])
    expected = theirs(directory, TEXTS, prompt_name="query")
    assert np.allclose(by_hand, expected, **TOLERANCE) == is_pooled
    assert ("yourself" in note) == is_pooled
    assert ("include_prompt" in note) != is_pooled


def test_a_converted_model_treats_prompts_as_before(directory, tmp_path):
    convert(Convert(model=directory, out=tmp_path / "out", to="sentence-transformers"))
    for options in ({}, {"prompt_name": "query"}):
        expected = theirs(directory, TEXTS, **options)
        found = theirs(str(tmp_path / "out"), TEXTS, **options)
        np.testing.assert_allclose(found, expected, **TOLERANCE)
