"""Beside `transformers`: equal where both are right, named where the peer departs."""

from __future__ import annotations

import builtins
import io
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.certificate import peer
from bertsmith.certificate.checks import PEER, certify
from bertsmith.certificate.rows import Row
from bertsmith.certificate.subject import Subject
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.certificate.breaking import saved, with_tokenizer
from tests.text.texts import VOCABULARY

TEXTS, RARE = "tokens of texts in many languages", "tokens of the rare texts"
FIRST_WEIGHTS = "first weights of transformers"


def rows(subject: Subject) -> dict[str, Row]:
    with torch.no_grad():
        made = [check(subject) for check in peer.CHECKS]
    return {row.name: row for each in made for row in (each if isinstance(each, list) else [each])}


def test_without_transformers_every_row_is_skipped_with_the_reason(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = rows(Subject.read(saved(tmp_path / "m")))
    assert {row.status for row in found.values()} == {"skipped"}
    assert {row.found for row in found.values()} == {"transformers is not installed"}


@pytest.mark.parity
class TestBeside:
    """Needs the peer."""

    @pytest.fixture(autouse=True)
    def _peer(self) -> None:
        pytest.importorskip("transformers")

    @pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
    def test_outputs_and_tokens_are_equal_and_departures_are_named(self, tmp_path, activation):
        found = rows(Subject.read(saved(tmp_path / "m", hidden_act=activation)))
        passed = {name for name, row in found.items() if row.status == "passed"}
        assert passed == {
            "hidden states", "pooled vectors", "language-model logits", "next-sentence logits",
            TEXTS,
        }  # fmt: skip
        for name in (RARE, FIRST_WEIGHTS):
            assert found[name].status == "failed"
            assert found[name].difference == "peer"
        assert "[PAD] row zero" in found[FIRST_WEIGHTS].found
        assert "special tokens written in a text" in found[RARE].found

    @pytest.mark.parametrize(
        ("part", "name"),
        [
            ("bert.layers.1.attention.qkv.weight", "hidden states"),
            ("bert.pooler.weight", "pooled vectors"),
            ("masked_lm.dense.weight", "language-model logits"),
            ("next_sentence.weight", "next-sentence logits"),
        ],
    )
    def test_a_model_that_is_not_what_lies_on_disk_fails(self, tmp_path, part, name) -> None:
        subject = Subject.read(saved(tmp_path / "m"))
        subject.model.get_parameter(part).data[0, 0] += 1e-3
        assert rows(subject)[name].status == "failed"

    def test_the_peer_s_first_weights_leave_the_generator_of_all_as_it_was(self, tmp_path) -> None:
        subject = Subject.read(saved(tmp_path / "m"))
        before = torch.get_rng_state()
        rows(subject)
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_tokenizer_of_other_rules_fails(self, tmp_path: Path) -> None:
        subject = Subject.read(saved(tmp_path / "m"))
        other = Tokenizer(VOCABULARY, TokenizerConfig(lowercase=False))
        assert rows(with_tokenizer(subject, other))[TEXTS].status == "failed"

    @pytest.mark.parametrize("has_model_type", [True, False])
    def test_code_beside_a_model_is_neither_run_nor_offered(
        self, tmp_path, monkeypatch, has_model_type
    ) -> None:
        folder, ran, asked = saved(tmp_path / "m"), tmp_path / "ran", []
        code = f"import pathlib\npathlib.Path({str(ran)!r}).touch()\nclass Own: pass\n"
        (folder / "own.py").write_text(code)
        for name, auto_map in (
            ("tokenizer_config.json", {"AutoTokenizer": ["own.Own", "own.Own"]}),
            ("config.json", {"AutoConfig": "own.Own", "AutoModel": "own.Own"}),
        ):
            content = json.loads((folder / name).read_text()) | {"auto_map": auto_map}
            if not has_model_type:
                content.pop("model_type", None)
                content["tokenizer_class"] = "Own"
            (folder / name).write_text(json.dumps(content))
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\n"))  # what a person might type
        monkeypatch.setattr(builtins, "input", lambda question="": asked.append(question) or "y")
        monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
        found = rows(Subject.read(folder))
        assert asked == []
        assert not ran.exists()
        assert found["hidden states"].status == "passed"
        assert found[TEXTS].status in ("passed", "skipped")

    @pytest.mark.parametrize(
        ("broken", "skipped"),
        [
            ("BertForPreTraining", {"hidden states and logits"}),
            ("BertConfig", {"hidden states and logits", FIRST_WEIGHTS}),
            ("BertModel", {FIRST_WEIGHTS}),
            ("AutoTokenizer", {TEXTS}),
        ],
    )
    def test_what_the_peer_raises_skips_its_own_rows_only(
        self, tmp_path, monkeypatch, broken, skipped
    ) -> None:
        monkeypatch.setattr(f"transformers.{broken}", None)
        folder = saved(tmp_path / "m")
        found = [row for row in certify(folder, "paper") if row.section == PEER]
        assert {row.name for row in found if row.status == "skipped"} == skipped
        assert all("Error: " in row.found for row in found if row.status == "skipped")
        assert "failed" not in {row.status for row in found}
        assert len(found) > len(skipped)

    def test_one_output_that_the_peer_cannot_compute_leaves_the_others(
        self, tmp_path, monkeypatch
    ) -> None:
        def old(self, *states):
            raise RuntimeError("too old")

        monkeypatch.setattr(
            "transformers.models.bert.modeling_bert.BertLMPredictionHead.forward", old
        )
        found = rows(Subject.read(saved(tmp_path / "m")))
        assert found["language-model logits"].status == "skipped"
        assert found["language-model logits"].found == "RuntimeError: too old"
        assert found["hidden states"].status == found["next-sentence logits"].status == "passed"

    def test_what_this_installation_raises_beside_the_peer_fails(self, tmp_path) -> None:
        subject = Subject.read(saved(tmp_path / "m"))
        broken = with_tokenizer(subject, None)
        with pytest.raises(AttributeError):
            peer.tokens(broken)

    def test_rare_texts_are_equal_for_a_tokenizer_with_the_library_s_rules(self, tmp_path):
        subject = Subject.read(saved(tmp_path / "m"))
        library = Tokenizer(subject.tokenizer.vocabulary, TokenizerConfig(library_rules=True))
        assert rows(with_tokenizer(subject, library))[RARE].status == "passed"

    def test_one_directional_models_are_compared_as_far_as_the_peer_goes(self, tmp_path) -> None:
        left = saved(tmp_path / "l", "left_to_right_lm", direction="left_to_right")
        found = rows(Subject.read(left))
        assert found["hidden states"].status == found["language-model logits"].status == "passed"
        assert found["pooled vectors"].found == "this left-to-right model has no pooler"
        objectives = ("left_to_right_lm", "next_sentence")
        found = rows(Subject.read(saved(tmp_path / "p", *objectives, direction="left_to_right")))
        for name in ("pooled vectors", "next-sentence logits"):
            assert found[name].found.startswith("transformers pools the first token, which has")
        right = saved(tmp_path / "r", "right_to_left_lm", direction="right_to_left")
        found = rows(Subject.read(right))
        assert found["hidden states and logits"].status == "skipped"

    def test_a_bare_encoder_and_a_decoder_of_its_own_are_compared(self, tmp_path: Path) -> None:
        folder = saved(tmp_path / "m")
        tensors = load_file(folder / "model.safetensors")
        decoder = tensors["bert.embeddings.word_embeddings.weight"].flip(0).contiguous()
        own = {**tensors, "cls.predictions.decoder.weight": decoder}
        save_file(own, folder / "model.safetensors")
        assert rows(Subject.read(folder))["language-model logits"].status == "passed"
        own["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].flip(0).contiguous()
        save_file(own, folder / "model.safetensors")
        assert rows(Subject.read(folder))["language-model logits"].status == "passed"
        bare = {name: each for name, each in tensors.items() if name.startswith("bert.e")}
        save_file(bare, folder / "model.safetensors")
        found = rows(Subject.read(folder))
        assert found["hidden states"].status == "passed"
        assert found["language-model logits"].status == found["pooled vectors"].status == "skipped"
