import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bertsmith.checkpoints import sentence_transformers, store
from bertsmith.inference import Predictor
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

PREFIX = "sentence_transformers.models."
MEAN = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}


DENSE = ("Dense", "2_Dense")
SIZES = {"in_features": 32, "out_features": 8}


def add_modules(directory, *, encoder="", pooling=MEAN, more=(), dense=(), max_tokens=None):
    chain = [("Transformer", encoder), ("Pooling", "1_Pooling"), *more]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": PREFIX + kind}
        for number, (kind, path) in enumerate(chain)
    ]
    directory.mkdir(exist_ok=True)
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps(pooling))
    if DENSE in more:
        (directory / "2_Dense").mkdir()
        (directory / "2_Dense/config.json").write_text(json.dumps(SIZES | dict(dense)))
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
        ({"pooling_mode": "lasttoken"}, ("lasttoken",)),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ("mean_sqrt_len_tokens",)),
        (
            {"pooling_mode_lasttoken": True, "pooling_mode_weightedmean_tokens": True},
            ("weightedmean", "lasttoken"),
        ),
        ({"pooling_mode_mean_tokens": False}, ("mean",)),
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
        (
            {"more": [("LSTM", "2_LSTM")]},
            r"2_LSTM' \(LSTM\) is none of Transformer, Pooling, Dense",
        ),
        ({"more": [("LayerNorm", "2_LayerNorm")]}, r"'2_LayerNorm' \(LayerNorm\) is none of"),
        ({"pooling": {"pooling_mode_median": True}}, "asks for pooling_mode_median"),
        ({"pooling": {"pooling_mode": ["mean", "median"]}}, "asks for median"),
        ({"more": [DENSE, DENSE]}, "in the order Transformer, Pooling, Dense, Dense; done here"),
        ({"more": [("Normalize", "2_N"), DENSE]}, "order Transformer, Pooling, Normalize, Dense;"),
        ({"more": [("Pooling", "1_Pooling")]}, "order Transformer, Pooling, Pooling; done here"),
        ({"more": [DENSE], "dense": {"use_residual": True}}, r"what comes out \(use_residual\)"),
        (
            {"more": [DENSE], "dense": {"activation_function": "torch.nn.modules.activation.GELU"}},
            "activation torch.nn.modules.activation.GELU; those made here are tanh, identity",
        ),
        (
            {"more": [DENSE], "dense": {"activation_function": "own.Tanh"}},
            "asks for the activation own.Tanh",
        ),
        (
            {"more": [DENSE], "dense": {"module_input_name": "token_embeddings"}},
            "names 'token_embeddings' as module_input_name",
        ),
    ],
)
def test_only_a_vector_that_would_be_another_is_refused(saved, changes, message):
    add_modules(saved, **changes)
    loaded = store.load(saved)
    (note,) = loaded.notes
    assert re.search(f"^no sentence vectors as its author made them: .*{message}", note)
    predictor = Predictor(loaded)
    (filled,) = predictor.fill_mask(["the [MASK]"])
    assert filled.masks
    for ask in (predictor.embed, lambda texts: predictor.similarity([(texts[0], texts[0])])):
        with pytest.raises(ValueError, match=message):
            ask(["the cat"])
    own = predictor.embed(["the cat"], pooling="mean")
    (saved / "modules.json").unlink()
    assert np.array_equal(own, Predictor(store.load(saved)).embed(["the cat"], pooling="mean"))


def test_a_normalisation_of_the_tokens_is_none_of_the_sentence(saved):
    add_modules(saved, more=[("Normalize", "2_Normalize")])
    (saved / "2_Normalize").mkdir()
    file = saved / "2_Normalize/config.json"
    file.write_text('{"module_input_name": "sentence_embedding"}')
    assert sentence_transformers.read(saved).is_normalized
    file.write_text('{"module_input_name": "token_embeddings"}')
    assert "names 'token_embeddings' as module_input" in sentence_transformers.read(saved).refusal


def add_dense(directory, *, dense=(), names=("linear.weight", "linear.bias"), is_pickled=False):
    """A model with a dense layer; the tensors are as large as SIZES says."""
    add_modules(directory, more=[DENSE], dense=dense)
    shapes = {"linear.weight": (8, 32), "linear.bias": (8,)}
    tensors = {name: torch.randn(shapes[name]) for name in names}
    if is_pickled:
        torch.save(tensors, directory / "2_Dense/pytorch_model.bin")
    else:
        save_file(tensors, directory / "2_Dense/model.safetensors")
    return tensors


@pytest.mark.parametrize("is_pickled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_dense_layer_is_read_with_its_weights(saved, is_pickled, dtype):
    tensors = add_dense(saved, is_pickled=is_pickled)
    loaded = store.load(saved, dtype=dtype)
    assert loaded.notes == ()
    assert loaded.sentence.dense == DenseConfig(**SIZES)
    found = loaded.dense.state_dict()
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor.to(dtype)) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, "tanh"),
        ({"activation_function": "torch.nn.modules.activation.Tanh"}, "tanh"),
        ({"activation_function": "torch.nn.Tanh"}, "tanh"),
        ({"activation_function": "torch.nn.modules.linear.Identity"}, "identity"),
    ],
)
def test_the_activation_is_read_as_the_library_names_it(saved, written, expected):
    add_dense(saved, dense=written)
    assert store.load(saved).sentence.dense.activation == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dense": {"in_features": 64}},
            "takes 64 numbers .* mean pooling .* of 32 gives 32: they",
        ),
        ({"dense": {"out_features": 9}}, r"ask for .*linear.weight \(9, 32\), .* are .* \(8, 32\)"),
        (
            {"dense": {"bias": False}},
            r"ask for the tensors linear.weight \(8, 32\), its weights are",
        ),
        (
            {"names": ["linear.weight"]},
            r"its weights are linear.weight \(8, 32\): copy or download",
        ),
        ({"dense": {"in_features": None}}, "in_features must be from 1 to 16,777,216, found None"),
        ({"dense": {"out_features": 0}}, "out_features must be from 1 to 16,777,216, found 0"),
    ],
)
def test_weights_that_are_not_what_the_settings_say_are_named(saved, changes, message):
    add_dense(saved, **changes)
    with pytest.raises(ValueError, match=f"2_Dense.*{message}"):
        store.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_weights_that_are_no_numbers_are_named(saved, value):
    tensors = add_dense(saved)
    if value is None:
        tensors["linear.bias"] = tensors["linear.bias"].to(torch.int8)
    else:
        tensors["linear.bias"][3] = value
    save_file(tensors, saved / "2_Dense/model.safetensors")
    with pytest.raises(ValueError, match=r"2_Dense: linear\.bias holds NaN, infinity or no"):
        store.load(saved)


def test_weights_that_are_missing_are_named(saved):
    add_modules(saved, more=[DENSE])
    with pytest.raises(FileNotFoundError, match=r"2_Dense/model\.safetensors is missing"):
        store.load(saved)


@pytest.mark.parametrize("is_normalized", [False, True])
@pytest.mark.parametrize(
    "dense",
    [
        DenseConfig(in_features=64, out_features=5),
        DenseConfig(in_features=64, out_features=5, has_bias=False, activation="identity"),
    ],
)
def test_a_chain_is_read_as_it_was_written(tmp_path, dense, is_normalized):
    config = SentenceConfig(
        pooling=("mean_sqrt_len_tokens", "lasttoken"), dense=dense, is_normalized=is_normalized
    )
    sentence_transformers.write(tmp_path, config, hidden_size=32)
    assert sentence_transformers.read(tmp_path) == config


def test_a_module_outside_its_directory_is_refused(saved):
    add_modules(saved, more=[("Normalize", "../elsewhere")])
    with pytest.raises(ValueError, match="outside its directory"):
        store.load(saved)


@pytest.mark.parametrize("content", ["{", '{"type": 1}', '[{"type": "x"}]', "[1]"])
def test_a_broken_list_of_modules_is_named(saved, content):
    (saved / "modules.json").write_text(content)
    with pytest.raises(ValueError, match=r"modules\.json is no list of modules"):
        store.load(saved)


ORDERS = [("mean", "cls"), ("max", "cls", "mean"), ("cls", "max"), ("lasttoken", "weightedmean")]


@pytest.mark.parametrize("pooling", ORDERS)
def test_the_order_of_the_poolings_is_read_as_it_was_written(tmp_path, pooling):
    config = SentenceConfig(pooling=pooling, max_tokens=20)
    sentence_transformers.write(tmp_path, config, hidden_size=32)
    assert sentence_transformers.read(tmp_path) == config
    written = json.loads((tmp_path / "1_Pooling/config.json").read_text())
    assert ("pooling_mode" in written) == (pooling != ("cls", "max"))


def add_prompts(directory, **content):
    (directory / "config_sentence_transformers.json").write_text(json.dumps(content))


def test_prompts_and_similarity_are_handed_on_and_written_again(saved, tmp_path):
    add_modules(saved, max_tokens=20)
    prompts = {"query": "query: ", "document": "", "passage": "passage: "}
    add_prompts(saved, prompts=prompts, default_prompt_name=None, similarity_fn_name="dot")
    expected = SentenceConfig(
        max_tokens=20, similarity="dot", prompts=(("query", "query: "), ("passage", "passage: "))
    )
    assert sentence_transformers.read(saved) == expected
    (tmp_path / "again").mkdir()
    sentence_transformers.write(tmp_path / "again", expected, hidden_size=32)
    assert sentence_transformers.read(tmp_path / "again") == expected


def test_a_prompt_that_is_always_used_is_refused_and_named(saved):
    add_modules(saved)
    add_prompts(saved, prompts={"query": "query: "}, default_prompt_name="query")
    told = store.load(saved).sentence.refusal
    assert "puts the prompt 'query' ('query: ') before each text" in told
    file = saved / "1_Pooling/config.json"
    file.write_text(json.dumps(MEAN | {"include_prompt": False}))
    assert "(include_prompt false): only sentence-trans" in store.load(saved).sentence.refusal


@pytest.mark.parametrize("is_pooled", [True, False])
def test_whether_a_prompt_is_pooled_is_read_and_written_again(saved, tmp_path, is_pooled):
    add_modules(saved, pooling=MEAN | {"include_prompt": is_pooled})
    found = sentence_transformers.read(saved)
    assert found.is_prompt_pooled == is_pooled
    (tmp_path / "again").mkdir()
    sentence_transformers.write(tmp_path / "again", found, hidden_size=32)
    assert sentence_transformers.read(tmp_path / "again") == found
    assert store.load(saved).notes == ()  # it says nothing where there is no prompt


@pytest.mark.parametrize("content", [{}, {"prompts": {"none": ""}, "default_prompt_name": "none"}])
def test_a_prompt_that_says_nothing_is_no_prompt(saved, content):
    add_modules(saved)
    add_prompts(saved, **content)
    assert sentence_transformers.read(saved).prompts == ()


def test_prompts_that_are_no_texts_are_named(saved):
    add_modules(saved)
    add_prompts(saved, prompts=["query: "])
    with pytest.raises(ValueError, match="prompts must be an object of texts, found"):
        sentence_transformers.read(saved)


@pytest.mark.parametrize("choice", [True, False, None])
def test_lower_casing_is_left_to_a_tokenizer_that_does_it(saved, choice):
    add_modules(saved)
    (saved / "sentence_bert_config.json").write_text(json.dumps({"do_lower_case": True}))
    file = saved / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"do_lower_case": choice}))
    refusal = sentence_transformers.read(saved).refusal
    assert ("asks for lower-cased texts" in refusal) is (not choice)


def test_a_download_brings_the_prompts_and_no_pickle_it_can_do_without():
    assert "config_sentence_transformers.json" in sentence_transformers.FILES
    assert not any(name.endswith(".bin") for name in sentence_transformers.FILES)
    assert {"*_Dense/config.json", "*_Dense/model.safetensors"} <= {*sentence_transformers.FILES}
    assert sentence_transformers.PICKLED_FILES == ("0_*/pytorch_model*.bin",)
