"""`bertsmith convert`: what it writes, refuses, says and uploads."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
import torch
import tyro

from bertsmith import cli
from bertsmith.checkpoints import exports, hub, sentence_transformers, store
from bertsmith.commands.convert import Convert, convert
from bertsmith.model.sentence import SentenceConfig
from tests.checkpoints.fake_hub import fake_hub
from tests.checkpoints.fine_tuned import BILSTM_HEADS, HEADS, fine_tuned
from tests.checkpoints.tiny import CONFIG, tiny_config, tiny_model, tiny_tokenizer


def test_the_command_line_names_the_model_the_place_and_the_reader(tmp_path):
    run = tyro.cli(Convert, args=["m", "out", "--to", "onnx", "--outputs", "logits"])
    assert run == Convert(model="m", out=run.out, to="onnx", outputs=("logits",))
    assert str(run.out) == "out"


@pytest.mark.parametrize("reader", ["hugging-face", "sentence-transformers", "tensorflow"])
def test_a_model_is_written_checked_and_described(model, tmp_path, capsys, reader):
    out = tmp_path / "out"
    convert(Convert(model=model, out=out, to=reader))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"wrote {out}: {reader}, float32, ")
    listed = {line.split()[0]: int(line.split()[1].replace(",", "")) for line in said[1:-2]}
    assert listed == {
        str(file.relative_to(out)): file.stat().st_size
        for file in out.rglob("*") if file.is_file()
    }  # fmt: skip
    assert said[-2].startswith("checked: read back, all ")
    assert (out / "README.md").read_text().startswith("---\n")
    found, first = store.load(out).model, store.load(model).model
    expected = first.state_dict()
    assert all(torch.equal(each, expected[name]) for name, each in found.state_dict().items())


@pytest.mark.parametrize("objectives", [("masked_lm", "next_sentence"), ()])
def test_what_to_type_next_runs(tmp_path, capsys, objectives):
    first = tmp_path / "first"
    wanted = tiny_model(*objectives) if objectives else tiny_model()
    state = wanted.state_dict()
    if not objectives:
        state = {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    store.save(first, state, CONFIG, tiny_tokenizer())
    convert(Convert(model=str(first), out=tmp_path / "my out", to="hugging-face"))
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("next: "))
    if command[0] == "bertsmith":
        assert cli.main(command[1:]) == 0
    else:
        assert command[:2] == ["python", "-c"]
        subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("kind", "reader", "part"),
    [
        ("token_classification", "hugging-face", "head"),
        ("token_classification", "tensorflow", "model"),
        ("multiple_choice", "tensorflow", "model"),
        ("sequence_classification", "tensorflow", "head"),
    ],
)
def test_next_is_the_head_only_where_the_format_holds_it(tmp_path, capsys, kind, reader, part):
    model, head = fine_tuned(HEADS[kind])
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to=reader))
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("next: "))
    assert command[-1].endswith(f".{part})")
    assert (store.load(tmp_path / "out").head is not None) == (part == "head")


def test_an_out_that_holds_something_is_left_alone(model, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"out exists already and is not empty"):
        convert(Convert(model="no/such/model", out=tmp_path / "out", to="hugging-face"))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.txt"]
    (tmp_path / "empty").mkdir()
    convert(Convert(model=model, out=tmp_path / "empty", to="hugging-face"))
    assert (tmp_path / "empty/model.safetensors").is_file()


def test_what_does_not_read_back_is_never_there(model, tmp_path, monkeypatch):
    def damaged(directory, loaded, export):
        raise ValueError("reads back otherwise")

    monkeypatch.setattr(exports, "verify", damaged)
    with pytest.raises(ValueError, match="reads back otherwise"):
        convert(Convert(model=model, out=tmp_path / "out", to="hugging-face"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"to": "tensorflow", "dtype": "float16"}, "reads float32 only"),
        ({"to": "onnx", "dtype": "bfloat16"}, "computes no bfloat16"),
        ({"to": "hugging-face", "outputs": ("logits",)}, "hugging-face has no such choice"),
        ({"to": "tensorflow", "pooling": ("cls",)}, "say nothing in tensorflow"),
        (
            {"to": "onnx", "outputs": ("last_hidden_state",), "pooling": ("cls",)},
            "sentence_embedding is made, which is not among --outputs",
        ),
        ({"to": "onnx", "outputs": ("logits",), "normalize": True}, "not among --outputs"),
        ({"to": "hugging-face", "public": True}, "--public goes with --push-to"),
        ({"to": "hugging-face", "push_to": "me"}, "'me' is no name on the Hub"),
    ],
)
def test_what_cannot_be_done_is_told_before_any_model_is_looked_for(tmp_path, choices, told):
    with pytest.raises(ValueError, match=told):
        convert(Convert(model="no/such/model", out=tmp_path / "out", **choices))


def test_what_has_no_class_there_is_refused_with_the_reason(tmp_path):
    model = tiny_model("right_to_left_lm", direction="right_to_left")
    store.save(tmp_path / "m", model, tiny_config(direction="right_to_left"), tiny_tokenizer())
    with pytest.raises(ValueError, match="transformers has no right-to-left BERT"):
        convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("reader", ["hugging-face", "onnx", "tensorflow"])
def test_a_bilstm_on_top_stays_and_the_encoder_goes_without_it(tmp_path, capsys, reader):
    model, head = fine_tuned(BILSTM_HEADS["token_classification"])
    first, out = tmp_path / "first", tmp_path / "out"
    store.save(first, model, model.config, tiny_tokenizer(), head=head)
    if reader == "onnx":
        pytest.importorskip("onnxscript")
    with pytest.raises(
        ValueError, match=r"no class for a BERT with a BiLSTM on top.*--without-head"
    ):
        convert(Convert(model=str(first), out=out, to=reader))
    assert not out.exists()
    convert(Convert(model=str(first), out=out, to=reader, without_head=True))
    assert "left out, as asked: the head for token classification" in capsys.readouterr().err
    if reader == "onnx":
        return
    assert store.load(out).head is None
    with pytest.raises(ValueError, match="holds no task head to leave out"):
        convert(Convert(model=str(out), out=tmp_path / "b", to="tensorflow", without_head=True))


def test_the_pooling_is_the_models_own_unless_typed(model, tmp_path, capsys):
    typed = Convert(
        model=model, out=tmp_path / "typed", to="sentence-transformers", pooling=("cls",),
        normalize=True,
    )  # fmt: skip
    convert(typed)
    assert "left out: the heads" in capsys.readouterr().err
    kept = Convert(model=str(tmp_path / "typed"), out=tmp_path / "k", to="sentence-transformers")
    convert(kept)
    found = store.load(tmp_path / "k").sentence
    assert found is not None
    assert (found.pooling, found.is_normalized, found.max_tokens) == (("cls",), True, 24)
    convert(Convert(model=str(tmp_path / "typed"), out=tmp_path / "hf", to="hugging-face"))
    assert "left out: the pooling of sentence vectors" in capsys.readouterr().err


def test_a_pooling_that_cannot_be_made_is_refused_where_it_would_be_written(model, tmp_path):
    source = tmp_path / "m"
    convert(Convert(model=model, out=source, to="sentence-transformers"))
    (source / "1_Pooling/config.json").write_text('{"pooling_mode": "median"}')
    with pytest.raises(ValueError, match="asks for median"):
        convert(Convert(model=str(source), out=tmp_path / "a", to="sentence-transformers"))
    convert(Convert(model=str(source), out=tmp_path / "b", to="hugging-face"))
    typed = Convert(
        model=str(source), out=tmp_path / "c", to="sentence-transformers", pooling=("mean",)
    )
    convert(typed)
    assert store.load(tmp_path / "c").sentence.pooling == ("mean",)


@pytest.mark.parametrize("reader", ["sentence-transformers", "onnx"])
@pytest.mark.parametrize("pooling", [("cls",), ("mean", "cls")])
def test_a_first_token_that_has_seen_only_itself_is_no_sentence(tmp_path, reader, pooling):
    if reader == "onnx":
        pytest.importorskip("onnxscript")
    left = tiny_model("left_to_right_lm", direction="left_to_right")
    config = tiny_config(direction="left_to_right")
    store.save(tmp_path / "m", left, config, tiny_tokenizer())
    run = Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to=reader, pooling=pooling)
    with pytest.raises(ValueError, match="has seen nothing but itself: choose mean or max"):
        convert(run)
    assert not (tmp_path / "out").exists()


def test_a_graph_without_sentence_vectors_asks_nothing_of_their_pooling(tmp_path, capsys):
    pytest.importorskip("onnxscript")
    left = tiny_model("left_to_right_lm", direction="left_to_right")
    config, source, out = tiny_config(direction="left_to_right"), tmp_path / "m", tmp_path / "out"
    store.save(source, left, config, tiny_tokenizer())
    sentence_transformers.write(source, SentenceConfig(pooling=("cls",)), 32)
    with pytest.raises(ValueError, match="has seen nothing but itself"):
        convert(Convert(model=str(source), out=out, to="onnx"))
    convert(Convert(model=str(source), out=out, to="onnx", outputs=("last_hidden_state",)))
    assert (out / "model.onnx").is_file()


def test_prompts_are_kept_or_told(model, tmp_path, capsys):
    first = tmp_path / "first"
    convert(Convert(model=model, out=first, to="sentence-transformers"))
    settings = first / "config_sentence_transformers.json"
    settings.write_text('{"prompts": {"query": "query: "}, "similarity_fn_name": "dot"}')
    convert(Convert(model=str(first), out=tmp_path / "st", to="sentence-transformers"))
    found = store.load(tmp_path / "st").sentence
    assert found is not None
    assert (found.prompts, found.similarity) == ((("query", "query: "),), "dot")
    assert "left out: the prompts" not in capsys.readouterr().err
    convert(Convert(model=str(first), out=tmp_path / "hf", to="hugging-face"))
    assert "left out: the prompts query ('query: ')" in capsys.readouterr().err


def test_the_directory_is_uploaded_as_it_is(model, tmp_path):
    cleared = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    command = [sys.executable, "-m", "bertsmith", "convert", model, "out", "--to", "hugging-face"]
    with fake_hub() as server:
        done = subprocess.run(
            [*command, "--push-to", "me/tiny"], cwd=tmp_path, capture_output=True, text=True,
            env={**cleared, "HF_HOME": str(tmp_path / "home"), **server.environment()}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"uploaded to {server.url}/me/tiny"
        assert server.is_private == {"me/tiny": True}
        out = tmp_path / "out"
        assert server.files["me/tiny"] == {file.name: file.read_bytes() for file in out.iterdir()}
    assert "model='me/tiny'" in (out / "README.md").read_text()


def test_an_upload_that_fails_leaves_the_directory_and_says_how_to_go_on(
    model, tmp_path, monkeypatch
):
    def refused(directory, repo_id, *, is_private):
        raise OSError(f"{repo_id} was not uploaded: the Hub answered 500")

    monkeypatch.setattr(hub, "check", lambda repo_id: None)
    monkeypatch.setattr(hub, "push", refused)
    out = tmp_path / "out"
    again = f"whole, upload it later with `hf upload me/m {out} --private`"
    with pytest.raises(OSError, match=again):
        convert(Convert(model=model, out=out, to="hugging-face", push_to="me/m"))
    assert (out / "model.safetensors").is_file()


def test_a_pooler_that_transformers_would_draw_is_noted(tmp_path, capsys):
    state = tiny_model("masked_lm").state_dict()
    bare = {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    store.save(tmp_path / "m", bare, CONFIG, tiny_tokenizer())
    convert(Convert(model=str(tmp_path / "m"), out=tmp_path / "out", to="hugging-face"))
    assert "this model has no pooler" in capsys.readouterr().err
