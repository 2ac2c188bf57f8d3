import collections
import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.checkpoints import store
from bertsmith.checkpoints.weights import read_weights
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer


@pytest.fixture
def saved(tmp_path):
    store.save(tmp_path / "saved", tiny_model(), CONFIG, tiny_tokenizer())
    return tmp_path / "saved"


@pytest.fixture
def tensors(saved):
    """The tensors of `saved`, whose weights file is gone."""
    found = load_file(saved / "model.safetensors")
    (saved / "model.safetensors").unlink()
    return found


def assert_is_the_tiny_model(loaded):
    expected = tiny_model().state_dict()
    assert loaded.model.state_dict().keys() == expected.keys()
    for name, value in loaded.model.state_dict().items():
        assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_pickle_of_tensors_loads_in_both_of_torchs_forms(saved, tensors, as_zip):
    file = saved / "pytorch_model.bin"
    torch.save(collections.OrderedDict(tensors), file, _use_new_zipfile_serialization=as_zip)
    assert_is_the_tiny_model(store.load(saved))


def test_pickles_in_parts_load_as_one(saved, tensors):
    parts = {"a": {}, "b": {}}
    for number, (name, tensor) in enumerate(tensors.items()):
        parts["ab"[number % 2]][name] = tensor
    for part, held in parts.items():
        torch.save(held, saved / f"pytorch_model-{part}.bin")
    index = {name: f"pytorch_model-{part}.bin" for part, held in parts.items() for name in held}
    (saved / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": index}))
    assert_is_the_tiny_model(store.load(saved))


def test_safetensors_come_before_a_pickle_beside_them(saved):
    (saved / "pytorch_model.bin").write_bytes(b"never opened")
    assert_is_the_tiny_model(store.load(saved))


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def torch_save(content, file):
    torch.save(content, file)


def torch_save_old(content, file):
    torch.save(content, file, _use_new_zipfile_serialization=False)


def pickle_0(content, file):
    pickle.dump(content, file, protocol=0)


def pickle_4(content, file):
    pickle.dump({**content, "name": "a", "other": "b"}, file, protocol=4)


@pytest.mark.parametrize("write", [torch_save, torch_save_old, pickle_0, pickle_4])
@pytest.mark.filterwarnings("error")  # what torch would say is said better
def test_no_code_of_a_pickle_is_ever_run(saved, tensors, tmp_path, write):
    sprung = tmp_path / "sprung"
    content = {"trap": Trap(sprung)}
    with (saved / "pytorch_model.bin").open("wb") as file:
        write(content if "pickle" in write.__name__ else {**tensors, **content}, file)
    message = r"is a pickle that asks for _?io\.open, .*nothing in it was run"
    with pytest.raises(ValueError, match=message) as caught:
        store.load(saved)
    assert "pytorch_model.bin" in str(caught.value)
    assert "weights_only" not in str(caught.value)  # torch's advice to read it unguarded
    assert "\n" not in str(caught.value)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung))).close()  # the trap is one
    assert sprung.exists()


@pytest.mark.parametrize("as_zip", [True, False])
@pytest.mark.parametrize("cut", [0, 1, 3, 10, 200, 300, 1000, -100])
def test_a_truncated_pickle_is_named_with_its_size(saved, tensors, cut, as_zip):
    file = saved / "pytorch_model.bin"
    torch.save(tensors, file, _use_new_zipfile_serialization=as_zip)
    file.write_bytes(file.read_bytes()[:cut])
    # Cut within the name of a function it is a file that asks for another one.
    message = rf"bin \({file.stat().st_size:,} bytes\) (is no complete file|asks for torch\._u)"
    with pytest.raises(ValueError, match=message) as caught:
        store.load(saved)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_pointer_to_a_file_that_was_not_fetched_says_how_to_fetch_it(saved, tensors, name):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 440473133\n"
    (saved / name).write_text(pointer)
    with pytest.raises(ValueError, match="git lfs pull"):
        store.load(saved)


@pytest.mark.parametrize("parts", [{"a": ["x"]}, {"a": 3}, ["a"], None])
def test_an_index_that_names_no_files_is_refused(saved, tensors, parts):
    (saved / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    with pytest.raises(ValueError, match="no weight_map of names to files"):
        store.load(saved)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([1, 2], "a list"),
        ({"epoch": 3, "state": {"a": torch.zeros(1)}}, "epoch: int, state: dict"),
    ],
)
def test_a_file_of_something_else_than_a_models_tensors_says_what_it_holds(
    saved, tensors, content, found
):
    torch.save(content, saved / "pytorch_model.bin")
    with pytest.raises(ValueError, match=f"holds {found}"):
        store.load(saved)


def test_a_directory_without_a_config_or_weights_is_named(saved, tensors):
    with pytest.raises(FileNotFoundError, match="holds no weights"):
        read_weights(saved)
    save_file(tensors, saved / "model.safetensors")
    (saved / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no config\.json and no bert_config\.json"):
        read_weights(saved)


@pytest.mark.parametrize(
    "spelled",
    [
        lambda name: f"module.{name}",
        lambda name: f"0.auto_model.{name.removeprefix('bert.')}",
        lambda name: name.removeprefix("bert."),
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ),
    ],
)
def test_every_old_spelling_of_the_names_loads(saved, tensors, spelled):
    save_file({spelled(name): each for name, each in tensors.items()}, saved / "model.safetensors")
    assert_is_the_tiny_model(store.load(saved))


def test_harmless_extras_are_listed(saved, tensors):
    extras = {
        "bert.embeddings.position_ids": torch.arange(24)[None],
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"].clone(),
        "classifier.weight": torch.zeros(3, 32),
    }
    save_file({**tensors, **extras}, saved / "model.safetensors")
    loaded = store.load(saved)
    assert_is_the_tiny_model(loaded)
    assert all(any(name in note for note in loaded.notes) for name in extras)
    assert set(loaded.left_aside) == set(extras)
    assert len(loaded.notes) == 2  # nothing more to see


def test_every_name_left_aside_is_there_where_the_note_is_short(saved, tensors):
    extras = {f"adapters.{number:03}.weight": torch.zeros(2) for number in range(40)}
    save_file({**tensors, **extras}, saved / "model.safetensors")
    loaded = store.load(saved)
    assert loaded.left_aside == tuple(extras)
    short, hint = loaded.notes
    assert short.endswith("adapters.010.weight, adapters.011.weight and 28 more")
    assert hint == f"all 40 names left aside: bertsmith.load({str(saved)!r}).left_aside"
