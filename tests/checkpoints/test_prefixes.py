import shutil

import numpy as np
import pytest

from bertsmith.checkpoints import places, store, tensor_bundle, tensorflow
from bertsmith.checkpoints.prefixes import find_prefix
from tests.checkpoints.golden.make_tensorflow import GOOGLE


def bundle(directory, *names):
    """Empty bundles of these names."""
    for name in names:
        tensor_bundle.write(directory / name, {"output_bias": np.zeros(2, np.float32)})


def test_a_prefix_each_of_its_files_and_its_directory_mean_the_same():
    assert find_prefix(GOOGLE) == GOOGLE
    assert find_prefix(GOOGLE.parent) == GOOGLE
    for suffix in (".index", ".data-00000-of-00001", ".meta"):
        assert find_prefix(GOOGLE.with_name(GOOGLE.name + suffix)) == GOOGLE


def test_what_is_no_checkpoint_has_no_prefix(tmp_path):
    (tmp_path / "faiss.index").write_bytes(b"something else")
    assert find_prefix(tmp_path) is None
    assert find_prefix(tmp_path / "nothing") is None
    assert find_prefix(tmp_path / "nothing" / "more") is None
    assert find_prefix(GOOGLE.with_name("bert_config.json")) is None


def test_half_a_checkpoint_is_found_so_that_its_reader_says_what_is_missing(tmp_path):
    shutil.copy(GOOGLE.with_name(GOOGLE.name + ".data-00000-of-00001"), tmp_path)
    prefix = find_prefix(tmp_path / GOOGLE.name)
    assert prefix == tmp_path / GOOGLE.name
    with pytest.raises(FileNotFoundError, match=r"bert_model\.ckpt\.index is missing"):
        tensorflow.read(prefix)


def test_of_several_the_highest_step_is_the_newest(tmp_path):
    bundle(tmp_path, "model.ckpt-9", "model.ckpt-1000", "model.ckpt-200")
    assert find_prefix(tmp_path) == tmp_path / "model.ckpt-1000"


def test_the_savers_own_word_comes_before_the_steps(tmp_path):
    bundle(tmp_path, "model.ckpt-9", "model.ckpt-1000")
    state = tmp_path / "checkpoint"
    state.write_text(
        'model_checkpoint_path: "/elsewhere/model.ckpt-9"\n'
        'all_model_checkpoint_paths: "/elsewhere/model.ckpt-1000"\n'
    )
    assert find_prefix(tmp_path) == tmp_path / "model.ckpt-9"
    state.write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert find_prefix(tmp_path) == tmp_path / "model.ckpt-1000"


def test_several_without_a_newest_are_listed(tmp_path):
    bundle(tmp_path, "bert_model.ckpt", "model.ckpt-1000")
    with pytest.raises(ValueError, match=r"bert_model\.ckpt, model\.ckpt-1000; name one") as caught:
        find_prefix(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_checkpoint_without_ckpt_in_its_name_is_found_by_all_its_names(tmp_path):
    for file in GOOGLE.parent.iterdir():
        shutil.copy(file, tmp_path / file.name.replace(GOOGLE.name, "model"))
    expected = store.load(GOOGLE.parent).model.state_dict()
    for place in (".", "model", "model.index", "model.data-00000-of-00001"):
        path = tmp_path / place
        assert places.find_model(path) == (tmp_path if place == "." else tmp_path / "model")
        state = store.load(path).model.state_dict()
        assert all(np.array_equal(state[name], each) for name, each in expected.items())


def test_an_index_of_something_else_makes_no_model(tmp_path):
    shutil.copy(GOOGLE.with_name("bert_config.json"), tmp_path)
    (tmp_path / "faiss.index").write_bytes(b"something else")
    assert not places.is_model(tmp_path)
