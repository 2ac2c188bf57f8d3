import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bertsmith.checkpoints import store
from bertsmith.checkpoints.misfits import MisfitError
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_config, tiny_model, tiny_tokenizer


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "saved"
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer(), card="# tiny\n")
    return directory


@pytest.mark.parametrize(
    ("direction", "objectives"),
    [
        ("bidirectional", ("masked_lm", "next_sentence")),
        ("bidirectional", ("masked_lm",)),
        ("left_to_right", ("left_to_right_lm",)),
        ("right_to_left", ("right_to_left_lm",)),
    ],
)
def test_a_model_survives_saving_and_loading_to_the_bit(tmp_path, direction, objectives):
    model = tiny_model(*objectives, direction=direction)
    config = tiny_config(direction=direction)
    store.save(tmp_path / "m", model, config, tiny_tokenizer())
    loaded = store.load(tmp_path / "m")
    assert loaded.config == config
    assert loaded.model.objectives == objectives
    assert loaded.notes == ()
    assert loaded.tokenizer.vocabulary == VOCABULARY
    assert not loaded.model.training
    state = loaded.model.state_dict()
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in loaded.model.parameters())


def test_the_directory_holds_the_hugging_face_files(saved):
    names = {file.name for file in saved.iterdir()}
    assert names >= {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json",
                     "tokenizer_config.json", "README.md"}  # fmt: skip
    assert (saved / "README.md").read_text() == "# tiny\n"
    content = json.loads((saved / "config.json").read_text())
    assert content["architectures"] == ["BertForPreTraining"]
    assert content["dtype"] == "float32"
    settings = json.loads((saved / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == CONFIG.max_position_embeddings
    with safe_open(saved / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert "bert.encoder.layer.0.attention.self.query.weight" in file.keys()  # noqa: SIM118


def test_half_precision_on_disk_is_fp32_in_memory_unless_asked_otherwise(tmp_path):
    model = tiny_model()
    store.save(tmp_path / "m", model, CONFIG, tiny_tokenizer(), dtype=torch.bfloat16)
    content = json.loads((tmp_path / "m/config.json").read_text())
    assert content["dtype"] == "bfloat16"
    assert {t.dtype for t in load_file(tmp_path / "m/model.safetensors").values()} == {
        torch.bfloat16
    }
    loaded = store.load(tmp_path / "m").model
    rounded = model.masked_lm.dense.weight.to(torch.bfloat16)
    assert loaded.masked_lm.dense.weight.dtype == torch.float32
    assert torch.equal(loaded.masked_lm.dense.weight, rounded.float())
    as_stored = store.load(tmp_path / "m", dtype=torch.bfloat16).model
    assert torch.equal(as_stored.masked_lm.dense.weight, rounded)


def test_a_state_saves_as_its_model_does(tmp_path, saved):
    store.save(tmp_path / "state", tiny_model().state_dict(), CONFIG, tiny_tokenizer())
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "state" / name).read_bytes() == (saved / name).read_bytes()


def test_saving_again_replaces_a_checkpoint_and_nothing_else(tmp_path, saved):
    store.save(saved, tiny_model(seed=4), CONFIG, tiny_tokenizer())
    assert not (saved / "README.md").exists()
    expected = tiny_model(seed=4).masked_lm.dense.weight
    assert torch.equal(store.load(saved).model.masked_lm.dense.weight, expected)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds files and is no checkpoint"):
        store.save(tmp_path / "mine", tiny_model(), CONFIG, tiny_tokenizer())
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_failed_save_leaves_the_older_checkpoint_whole(saved, monkeypatch):
    before = (saved / "model.safetensors").read_bytes()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(store, "save_tensors", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.save(saved, tiny_model(seed=4), CONFIG, tiny_tokenizer())
    assert (saved / "model.safetensors").read_bytes() == before
    assert [entry.name for entry in saved.parent.iterdir()] == ["saved"]


def test_a_truncated_file_is_named_with_its_size(saved):
    file = saved / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no complete safetensors file") as caught:
        store.load(saved)
    assert str(file) in str(caught.value)
    assert f"{file.stat().st_size:,} bytes" in str(caught.value)


def test_a_config_that_is_no_json_object_is_named(saved):
    (saved / "config.json").write_text('{"vocab_size": ')
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        store.load(saved)
    (saved / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="holds a list, expected a JSON object"):
        store.load(saved)


def test_weights_of_another_size_than_the_config_says_are_named(saved):
    content = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**content, "hidden_size": 16}))
    with pytest.raises(ValueError, match=r"has shape \(32,\), expected \(16,\)"):
        store.load(saved)


def test_an_encoder_without_heads_loads_with_its_pooler(saved):
    tensors = load_file(saved / "model.safetensors")
    bare = {
        name.removeprefix("bert."): tensor
        for name, tensor in tensors.items()
        if name.startswith("bert.")
    }
    save_file(bare, saved / "model.safetensors", metadata={"format": "pt"})
    model = store.load(saved).model
    assert model.objectives == ()
    assert model.masked_lm is None
    assert model.next_sentence is None
    assert torch.equal(model.bert.pooler.weight, tensors["bert.pooler.dense.weight"])


def test_an_encoder_without_a_pooler_loads_without_one(saved):
    tensors = load_file(saved / "model.safetensors")
    bare = {name: each for name, each in tensors.items() if "pooler" not in name}
    del bare["cls.seq_relationship.weight"], bare["cls.seq_relationship.bias"]
    save_file(bare, saved / "model.safetensors")
    loaded = store.load(saved)
    assert loaded.model.bert.pooler is None
    assert loaded.model.objectives == ("masked_lm",)
    assert loaded.notes == ()  # as our own are
    content = json.loads((saved / "config.json").read_text())
    del content["bertsmith_direction"]
    (saved / "config.json").write_text(json.dumps(content))
    (note,) = store.load(saved).notes
    assert note.startswith("the file holds no pooler (bert.pooler.dense.weight and its bias)")


def test_a_pooler_that_reads_another_token_than_in_transformers_is_told(tmp_path):
    model = tiny_model("left_to_right_lm", "next_sentence", direction="left_to_right")
    config = tiny_config(direction="left_to_right")
    store.save(tmp_path / "m", model, config, tiny_tokenizer())
    assert store.load(tmp_path / "m").notes == ()  # ours was trained so
    content = json.loads((tmp_path / "m/config.json").read_text())
    del content["bertsmith_direction"]
    (tmp_path / "m/config.json").write_text(json.dumps(content))
    (note,) = store.load(tmp_path / "m").notes
    assert "whose pooler reads the last token here; in transformers it reads the first" in note


@pytest.mark.parametrize("is_said", [True, False])
def test_a_decoder_of_its_own_survives_loading_and_saving(saved, tmp_path, is_said):
    tensors = load_file(saved / "model.safetensors")
    decoder = torch.randn(tensors["bert.embeddings.word_embeddings.weight"].shape)
    tensors["cls.predictions.decoder.weight"] = decoder
    save_file(tensors, saved / "model.safetensors")
    content = json.loads((saved / "config.json").read_text())
    written = json.dumps(content | {"tie_word_embeddings": not is_said})
    (saved / "config.json").write_text(written)
    loaded = store.load(saved)
    assert len(loaded.notes) == (not is_said)
    assert torch.equal(loaded.model.masked_lm.decoder.weight, decoder)
    store.save(tmp_path / "again", loaded.model, loaded.config, loaded.tokenizer)
    again = store.load(tmp_path / "again")
    assert again.notes == ()
    assert again.config == loaded.config
    assert torch.equal(again.model.masked_lm.decoder.weight, decoder)
    assert json.loads((tmp_path / "again/config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_decoder_stands_in_for_the_embedding_only_where_they_are_tied(saved, is_tied):
    tensors = load_file(saved / "model.safetensors")
    embedding = tensors.pop("bert.embeddings.word_embeddings.weight")
    save_file(tensors | {"cls.predictions.decoder.weight": embedding}, saved / "model.safetensors")
    content = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(content | {"tie_word_embeddings": is_tied}))
    if is_tied:
        assert torch.equal(store.load(saved).model.bert.embeddings.token.weight, embedding)
        return
    with pytest.raises(MisfitError) as caught:
        store.load(saved)
    assert caught.value.missing == ("bert.embeddings.word_embeddings.weight",)


def test_weights_in_several_parts_load_as_one(saved):
    tensors = load_file(saved / "model.safetensors")
    parts = {"a": {}, "b": {}}
    for number, (name, tensor) in enumerate(tensors.items()):
        parts["ab"[number % 2]][name] = tensor
    for part, held in parts.items():
        save_file(held, saved / f"model-{part}.safetensors")
    whole = store.load(saved).model.state_dict()
    (saved / "model.safetensors").unlink()
    index = {name: f"model-{part}.safetensors" for part, held in parts.items() for name in held}
    (saved / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    joined = store.load(saved).model.state_dict()
    assert all(torch.equal(joined[name], value) for name, value in whole.items())
    (saved / "model-b.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model-b\.safetensors is missing"):
        store.load(saved)


def test_a_vocabulary_of_another_size_is_noted_or_refused(tmp_path):
    wide = tiny_config(vocab_size=len(VOCABULARY) + 3)
    state = tiny_model().state_dict()
    for name in ("bert.embeddings.token.weight", "masked_lm.bias"):
        state[name] = torch.cat([state[name], state[name][:3]])
    store.save(tmp_path / "wide", state, wide, tiny_tokenizer())
    assert store.load(tmp_path / "wide").notes == (
        "3 rows of the token embedding stand for no vocabulary entry",
    )
    narrow = tiny_config(vocab_size=len(VOCABULARY) - 1)
    for name in ("bert.embeddings.token.weight", "masked_lm.bias"):
        state[name] = state[name][:-4]
    store.save(tmp_path / "narrow", state, narrow, tiny_tokenizer())
    with pytest.raises(ValueError, match="do not belong together"):
        store.load(tmp_path / "narrow")


def test_added_tokens_must_have_rows_of_the_embedding(saved):
    (saved / "tokenizer.json").unlink()
    (saved / "tokenizer_config.json").unlink()
    (saved / "added_tokens.json").write_text(json.dumps({"<e>": len(VOCABULARY)}))
    with pytest.raises(ValueError, match=r"26 entries, 1 of them added tokens, .* only 25 rows"):
        store.load(saved)


def test_a_file_that_holds_a_tensor_twice_is_named(saved):
    tensors = load_file(saved / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.gamma"] = torch.zeros(32)
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{saved}: .*gamma and .* two names of one tensor"):
        store.load(saved)


@pytest.mark.parametrize(
    "changes", [{"vocab_size": 10**19}, {"hidden_size": 2**62}, {"num_hidden_layers": 10**7}]
)
def test_a_config_of_impossible_sizes_is_one_line_before_the_weights_are_read(saved, changes):
    content = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**content, **changes}))
    (saved / "model.safetensors").write_bytes(b"never read")
    (name,) = changes
    with pytest.raises(ValueError, match=rf"config\.json: {name} must be from 1 to"):
        store.load(saved)


@pytest.mark.parametrize("kind", ["roberta", "gpt2", "distilbert"])
def test_a_model_that_is_no_bert_is_refused_before_its_weights_are_read(saved, kind):
    content = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**content, "model_type": kind}))
    (saved / "model.safetensors").write_bytes(b"never read")
    with pytest.raises(ValueError, match=f"model_type is '{kind}'"):
        store.load(saved)


def test_prompts_of_a_sentence_model_are_noted_where_they_say_something(saved):
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    (saved / "modules.json").write_text(json.dumps(modules))
    file = saved / "config_sentence_transformers.json"
    file.write_text(json.dumps({"prompts": {"query": "find: ", "document": ""}}))
    (note,) = store.load(saved).notes
    assert note.endswith("texts: query ('find: '); put them before texts yourself")
    file.write_text(json.dumps({"prompts": {"query": "", "document": ""}}))
    assert store.load(saved).notes == ()
