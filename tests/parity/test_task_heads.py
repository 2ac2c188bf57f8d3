"""What transformers fine-tuned goes through bertsmith with its head, its labels and its logits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertsmith.checkpoints import store
from bertsmith.checkpoints.prefixes import find_prefix
from bertsmith.checkpoints.tensor_bundle import TensorBundle
from bertsmith.commands.convert import Convert, convert
from bertsmith.model.padded import named_logits
from bertsmith.model.stream import Stream
from tests.checkpoints.tiny import VOCABULARY, tiny_config, tiny_tokenizer
from tests.model.plain import random_packed

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

LABELS = ("O", "B-PER", "나쁨")
KINDS = {
    "SequenceClassification": {
        "num_labels": 3, "problem_type": "multi_label_classification", "classifier_dropout": 0.25,
    },
    "TokenClassification": {"num_labels": 3},
    "QuestionAnswering": {},
    "MultipleChoice": {},
}  # fmt: skip
NAMED = ("SequenceClassification", "TokenClassification")
TOKENS = r"\(2, \d+\)"
PRINTED = {
    "hugging-face": {
        "SequenceClassification": r"\[\{'label': '(O|B-PER|나쁨)', 'score': [\d.e-]+\}\]\n",
        "TokenClassification": r"\[(\{'entity': '(B-PER|나쁨)', .*'end': \d+\})?\]\n",
        "QuestionAnswering": r"(tensor\(\[\[.*?\]\], .*?\)\s+){2}",
        "MultipleChoice": r"tensor\(\[\[\s*-?[\d.e+-]+,\s+-?[\d.e+-]+\]\], .*\)\n",
    },
    "onnx": {
        "SequenceClassification": r".*logits \(2, 3\)\n",
        "TokenClassification": r".*logits \(2, \d+, 3\)\n",
        "QuestionAnswering": rf".*start_logits {TOKENS}\nend_logits {TOKENS}\n",
        "MultipleChoice": r".*logits \(2, 1\)\n",
    },
}
"""What the code of a card prints, by reader and task: a small answer of three labels."""
PACKED = random_packed([5, 24, 1, 11], len(VOCABULARY))
# fp32 sums in another order; logits here reach several units.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """A directory of transformers' own for each kind: tiny, random, named labels, never loaded."""
    root = tmp_path_factory.mktemp("peers")
    for kind, choices in KINDS.items():
        torch.manual_seed(1)
        named = {"id2label": dict(enumerate(LABELS))} if kind in NAMED else {}
        ours = tiny_config()
        config = transformers.BertConfig(
            vocab_size=ours.vocab_size, hidden_size=32, num_hidden_layers=2, intermediate_size=128,
            num_attention_heads=4, max_position_embeddings=24, **choices, **named,
        )  # fmt: skip
        peer = getattr(transformers, f"BertFor{kind}")(config)
        for name, parameter in peer.named_parameters():
            if not name.endswith("LayerNorm.weight"):
                torch.nn.init.normal_(parameter, std=0.3)
        peer.save_pretrained(root / kind)
        tiny_tokenizer().save(root / kind, max_tokens=24)
    return root


def theirs(kind: str, directory: Path) -> dict[str, torch.Tensor]:
    """The logits of transformers' class on real tokens; all rows are choices of one question."""
    peer, report = getattr(transformers, f"BertFor{kind}").from_pretrained(
        directory, output_loading_info=True
    )
    assert not report["missing_keys"]
    inputs = [torch.from_numpy(array) for array in PACKED.to_padded()]
    real = inputs[1].bool()
    if kind == "MultipleChoice":
        inputs = [each[None] for each in inputs]
    names = ("input_ids", "attention_mask", "token_type_ids")
    with torch.no_grad():
        found = peer.eval()(**dict(zip(names, inputs, strict=True)))
    if kind == "QuestionAnswering":
        return {name: found[name][real] for name in ("start_logits", "end_logits")}
    logits = found["logits"]
    if kind == "TokenClassification":
        logits = logits[real]
    return {"logits": logits.T if kind == "MultipleChoice" else logits}


def ours(directory: Path) -> dict[str, torch.Tensor]:
    loaded = store.load(directory)
    assert loaded.head is not None
    with torch.no_grad():
        logits = loaded.head.logits(loaded.model.bert, Stream.of(PACKED))
    return named_logits(loaded.head, logits)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, logits in expected.items():
        assert logits.abs().max() > 0.1
        torch.testing.assert_close(found[name], logits, **TOLERANCE, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_of_transformers_loads_with_its_labels_and_gives_its_logits(peers, kind):
    loaded = store.load(peers / kind)
    assert loaded.head is not None
    # A head of tokens needs no pooler, and the file holds none: that is told.
    assert len(loaded.notes) == int(loaded.head.config.reads_tokens)
    assert all("holds no pooler" in note for note in loaded.notes)
    head = loaded.head.config
    assert head.kind == re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
    assert head.problem_type == KINDS[kind].get("problem_type")
    if kind in NAMED:
        assert head.labels == LABELS
    assert head.dropout == {"QuestionAnswering": 0.0, "SequenceClassification": 0.25}.get(kind, 0.1)
    assert_equal(ours(peers / kind), theirs(kind, peers / kind))


@pytest.mark.parametrize("kind", KINDS)
def test_hugging_face_gets_back_every_tensor_the_labels_and_the_logits(peers, tmp_path, kind):
    out = tmp_path / "out"
    convert(Convert(model=str(peers / kind), out=out, to="hugging-face"))
    first, last = (load_file(each / "model.safetensors") for each in (peers / kind, out))
    assert first.keys() == last.keys()
    assert all(torch.equal(first[name], last[name]) for name in first)
    before, after = (transformers.AutoConfig.from_pretrained(each) for each in (peers / kind, out))
    for name in ("architectures", "problem_type"):
        assert getattr(after, name) == getattr(before, name)
    if kind in NAMED:
        assert after.id2label == before.id2label == dict(enumerate(LABELS))
        assert after.label2id == {label: number for number, label in enumerate(LABELS)}
    assert_equal(theirs(kind, out), theirs(kind, peers / kind))
    assert_equal(ours(out), theirs(kind, peers / kind))


@pytest.mark.parametrize("kind", KINDS)
def test_onnx_gives_the_logits_of_transformers_and_keeps_the_labels(peers, tmp_path, kind):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    out, expected = tmp_path / "out", theirs(kind, peers / kind)
    names = tuple(expected)
    convert(Convert(model=str(peers / kind), out=out, to="onnx", outputs=names))
    session = runtime.InferenceSession(f"{out}/model.onnx", providers=["CPUExecutionProvider"])
    inputs = PACKED.to_padded()
    keys = ("input_ids", "attention_mask", "token_type_ids")
    found = session.run(list(names), dict(zip(keys, inputs, strict=True)))
    real = inputs[1].astype(bool)
    is_by_token = kind in ("TokenClassification", "QuestionAnswering")
    rows = {
        name: torch.from_numpy(array[real] if is_by_token else array)
        for name, array in zip(names, found, strict=True)
    }
    assert_equal(rows, expected)
    content = json.loads((out / "config.json").read_text())
    assert content["architectures"] == [f"BertFor{kind}"]
    if kind in NAMED:
        assert tuple(content["id2label"].values()) == LABELS


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        ("SequenceClassification", {"output_weights", "output_bias"}),
        ("QuestionAnswering", {"cls/squad/output_weights", "cls/squad/output_bias"}),
        ("TokenClassification", set()),
        ("MultipleChoice", set()),
    ],
)
def test_tensorflow_gets_the_heads_that_the_original_has(peers, tmp_path, capsys, kind, variables):
    out = tmp_path / "out"
    convert(Convert(model=str(peers / kind), out=out, to="tensorflow"))
    told = capsys.readouterr().err
    prefix = find_prefix(out)
    assert prefix is not None
    names = TensorBundle.open(prefix).entries.keys()
    assert {name for name in names if not name.startswith("bert/")} == variables
    if not variables:
        assert "left out: the head for" in told
        assert "google-research/bert has no code for" in told
        assert store.load(out).head is None
        return
    assert ("left out: the labels O, B-PER, 나쁨 and problem_type" in told) == (kind in NAMED)
    assert_equal(ours(out), theirs(kind, peers / kind))
    back = tmp_path / "back"
    convert(Convert(model=str(out), out=back, to="hugging-face"))
    assert_equal(theirs(kind, back), theirs(kind, peers / kind))


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_transformers_has_no_head_and_it_is_told(peers, tmp_path, capsys, kind):
    convert(Convert(model=str(peers / kind), out=tmp_path / "o", to="sentence-transformers"))
    assert "left out: the head for" in capsys.readouterr().err
    assert store.load(tmp_path / "o").head is None
    card = (tmp_path / "o/README.md").read_text()
    assert "the encoder alone" in card


@pytest.mark.parametrize("reader", ["hugging-face", "onnx"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_python_of_the_card_runs_and_names_the_task(
    peers, tmp_path, monkeypatch, capsys, kind, reader
):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    convert(Convert(model=str(peers / kind), out=Path("out"), to=reader))
    card = Path("out/README.md").read_text()
    task = re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower().removeprefix("sequence-")
    task = {"classification": "text-classification"}.get(task, task)
    assert f"pipeline_tag: {task}" in card
    assert ("O, B-PER, 나쁨" in card) == (kind in NAMED)
    capsys.readouterr()
    (code,) = re.findall("```python\n(.*?)```", card, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert re.fullmatch(PRINTED[reader][kind], shown, re.DOTALL), shown
