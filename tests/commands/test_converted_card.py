"""Which card stands beside a converted model: its own where that is still true, else a new one."""

from __future__ import annotations

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from bertsmith.checkpoints import store
from bertsmith.commands.convert import Convert, convert
from tests.checkpoints.fine_tuned import BILSTM_HEADS, HEADS, fine_tuned
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer


def test_a_card_that_the_model_has_is_kept(tmp_path):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), card="# my own words\n")
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    assert (tmp_path / "out/README.md").read_text() == "# my own words\n"


OLD_CARD = """\
---
language: [en, ko]
license: other
license_name: house-rules
license_link: https://example.org/rules
library_name: transformers
---
# Mine

Safetensors for transformers.

```bash
# a comment, no heading
```
"""


@pytest.mark.parametrize(
    ("choices", "library"),
    [
        ({"to": "tensorflow"}, None),
        ({"to": "sentence-transformers"}, "sentence-transformers"),
        ({"to": "hugging-face", "dtype": "bfloat16"}, "transformers"),
    ],
)
def test_a_card_that_tells_of_other_files_becomes_a_section(tmp_path, capsys, choices, library):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), card=OLD_CARD)
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", **choices))
    card = ModelCard((tmp_path / "out/README.md").read_text())
    assert card.data.library_name == library
    assert card.data.language == ["en", "ko"]
    assert (card.data.license, card.data.license_name) == ("other", "house-rules")
    assert card.data.license_link == "https://example.org/rules"
    new, old = card.text.split("## About the original model\n")
    assert "# out\n" in new
    assert "licence of its weights is not known" not in new
    assert "### Mine\n\nSafetensors for transformers.\n" in old
    assert "\n# a comment, no heading\n" in old
    assert "README.md tells of other files" in capsys.readouterr().err


def with_a_head_that_is_left_aside(directory):
    model, head = fine_tuned(HEADS["token_classification"])
    store.save(directory, model, model.config, tiny_tokenizer(), head=head, card=OLD_CARD)
    config = directory / "config.json"
    config.write_text(config.read_text().replace("BertForTokenClassification", "BertModel"))


def with_a_file_that_is_not_written(directory):
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer(), card=OLD_CARD)
    (directory / "onnx").mkdir()
    (directory / "onnx/model.onnx").write_bytes(b"a graph")


def with_weights_of_another_name(directory):
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer(), card=OLD_CARD)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()


@pytest.mark.parametrize(
    "make",
    [
        with_a_head_that_is_left_aside, with_a_file_that_is_not_written,
        with_weights_of_another_name,
    ],
)  # fmt: skip
def test_a_card_is_not_kept_where_a_head_or_a_file_it_may_tell_of_is_gone(tmp_path, capsys, make):
    make(tmp_path / "m")
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    card = (tmp_path / "out/README.md").read_text()
    assert "## About the original model" in card
    assert "### Mine" in card
    assert "README.md tells of other files" in capsys.readouterr().err


def test_a_fine_tuned_model_keeps_its_card_with_its_head(tmp_path):
    model, head = fine_tuned(HEADS["token_classification"])
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head, card=OLD_CARD)
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    assert (tmp_path / "out/README.md").read_text() == OLD_CARD


@pytest.mark.parametrize("config", [*HEADS.values(), *BILSTM_HEADS.values()])
def test_a_card_of_a_head_that_is_left_out_becomes_a_section(tmp_path, config):
    model, head = fine_tuned(config)
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head, card=OLD_CARD)
    out = tmp_path / "out"
    convert(Convert(model=str(tmp_path / "m"), out=out, to="hugging-face", without_head=True))
    new, old = (out / "README.md").read_text().split("## About the original model\n")
    assert config.kind.replace("_", " ") not in new
    assert "### Mine" in old


@pytest.mark.parametrize("reader", ["hugging-face", "sentence-transformers", "tensorflow"])
def test_a_card_names_the_model_and_no_place_on_this_machine(model, tmp_path, reader):
    convert(Convert(model=model, out=tmp_path / "mine", to=reader))
    card = (tmp_path / "mine/README.md").read_text()
    assert str(tmp_path) not in card
    assert "# mine\n" in card


def test_a_card_of_other_bytes_than_utf_8_is_named(tmp_path):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer())
    (tmp_path / "m/README.md").write_bytes("# caf\xe9\n".encode("latin-1"))
    told = r"README\.md is no UTF-8 \(byte 5 is 0xe9\); save it as UTF-8, or take the file away"
    with pytest.raises(ValueError, match=told):
        convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_given_facts_replace_those_of_the_models_card(tmp_path, dtype):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), card=OLD_CARD)
    run = Convert(
        model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face", dtype=dtype,
        language="ko", license="mit",
    )  # fmt: skip
    convert(run)
    card = ModelCard((tmp_path / "out/README.md").read_text())
    facts = card.data.to_dict()
    assert (facts["language"], facts["license"]) == ("ko", "mit")
    assert facts["library_name"] == "transformers"
    assert not facts.keys() & {"license_name", "license_link"}
    assert "Safetensors for transformers." in card.text


def test_a_card_without_front_matter_gets_the_facts_that_are_given(tmp_path):
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), card="# my own words\n")
    convert(
        Convert(model=str(tmp_path / "m"), out=tmp_path / "o", to="hugging-face", license="mit")
    )
    assert (tmp_path / "o/README.md").read_text() == "---\nlicense: mit\n---\n# my own words\n"


def test_a_broken_card_is_told_before_anything_is_written(tmp_path):
    card = "---\nlanguage: [en\n---\n# mine\n"
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer(), card=card)
    with pytest.raises(ValueError, match=r"README\.md: what stands between its dashes is no YAML"):
        convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="tensorflow"))
    assert not (tmp_path / "out").exists()


def test_language_and_licence_stand_in_the_card(model, tmp_path):
    run = Convert(
        model=model, out=tmp_path / "out", to="hugging-face", language="ko", license="mit"
    )
    convert(run)
    lines = (tmp_path / "out/README.md").read_text().splitlines()
    assert {"language: ko", "license: mit"} <= set(lines)
