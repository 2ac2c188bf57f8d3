import json

import pytest
import torch

from bertsmith.checkpoints import sentence_transformers, store
from bertsmith.model.pooling import SentenceConfig
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

PREFIX = "sentence_transformers.models."
MEAN = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}


def add_modules(directory, *, encoder="", pooling=MEAN, more=(), max_tokens=None):
    chain = [("Transformer", encoder), ("Pooling", "1_Pooling"), *more]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": PREFIX + kind}
        for number, (kind, path) in enumerate(chain)
    ]
    directory.mkdir(exist_ok=True)
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps(pooling))
    if max_tokens is not None:
        settings = {"max_seq_length": max_tokens, "do_lower_case": False}
        (directory / "sentence_bert_config.json").write_text(json.dumps(settings))


@pytest.fixture
def saved(tmp_path):
    store.save(tmp_path / "saved", tiny_model(), CONFIG, tiny_tokenizer())
    return tmp_path / "saved"


def test_a_directory_that_says_nothing_of_sentences_has_no_sentence_config(saved):
    assert sentence_transformers.read(saved) is None
    assert store.load(saved).sentence is None


@pytest.mark.parametrize(
    ("written", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, ("mean",)),
        ({"pooling_mode_cls_token": True}, ("cls",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ("max", "mean")),
        ({"pooling_mode": "mean"}, ("mean",)),
        ({"pooling_mode": "cls"}, ("cls",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
    ],
)
def test_the_pooling_is_read_in_the_librarys_order(saved, written, pooling):
    add_modules(saved, pooling=written, max_tokens=20)
    expected = SentenceConfig(pooling=pooling, max_tokens=20)
    assert store.load(saved).sentence == expected


@pytest.mark.parametrize(("written", "expected"), [(16, 16), (10**30, None)])
def test_a_length_may_stand_in_the_tokenizers_settings(saved, written, expected):
    add_modules(saved)
    file = saved / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": written}))
    assert store.load(saved).sentence.max_tokens == expected


def test_normalisation_is_a_module_of_its_own(saved):
    add_modules(saved, more=[("Normalize", "2_Normalize")])
    expected = SentenceConfig(is_normalized=True, max_tokens=CONFIG.max_position_embeddings)
    assert store.load(saved).sentence == expected


def test_an_encoder_in_a_folder_of_its_own_is_found_there(tmp_path):
    store.save(tmp_path / "old/0_Transformer", tiny_model(), CONFIG, tiny_tokenizer())
    add_modules(tmp_path / "old", encoder="0_Transformer")
    loaded = store.load(tmp_path / "old")
    assert loaded.sentence == SentenceConfig(max_tokens=CONFIG.max_position_embeddings)
    assert loaded.directory == tmp_path / "old"
    assert torch.equal(loaded.model.masked_lm.bias, tiny_model().masked_lm.bias)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": [("Dense", "2_Dense")]}, r"2_Dense.*none of Transformer, Pooling and Normalize"),
        ({"pooling": {"pooling_mode_lasttoken": True}}, "asks for pooling_mode_lasttoken"),
        ({"more": [("Normalize", "../elsewhere")]}, "outside its directory"),
    ],
)
def test_what_would_give_other_vectors_is_refused(saved, changes, message):
    add_modules(saved, **changes)
    with pytest.raises(ValueError, match=message):
        store.load(saved)


@pytest.mark.parametrize("content", ["{", '{"type": 1}', '[{"type": "x"}]', "[1]"])
def test_a_broken_list_of_modules_is_named(saved, content):
    (saved / "modules.json").write_text(content)
    with pytest.raises(ValueError, match=r"modules\.json is no list of modules"):
        store.load(saved)
