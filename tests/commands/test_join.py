"""ELMo's side, from text to tags: two LSTM language models, trained apart, joined and frozen."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertsmith.checkpoints.store import load
from bertsmith.train.log import read_metrics
from tests.commands.small_files import tagged, texts
from tests.commands.small_run import TOY, TOY_RUN, killed_at, run, write_text
from tests.commands.small_task import bertsmith
from tests.commands.test_pretrain_killed import check_equal

LSTM = ("--model.layer-kind", "lstm", "--phases", "12x16x8", "12x32x8", "--save-every", "6")
LEFT = ("--model.direction", "left_to_right", "--objectives", "left_to_right_lm")
RIGHT = ("--model.direction", "right_to_left", "--objectives", "right_to_left_lm")
LEARN = (
    "--approach", "feature_based", "--on-top", "bilstm", "--lstm-size", "16",
    "--max-tokens", "16", "--batch-size", "8", "--epochs", "15", "--precision", "fp32",
    "--threads", "1", "--optimizer.learning-rate", "1e-2",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs in both directions, and what they make joined."""
    place = tmp_path_factory.mktemp("elmo")
    first = run(write_text(place / "text"), *TOY, *LSTM, *LEFT, "--out", place / "left")
    assert first.returncode == 0, first.stderr
    assert "own size: 2 layers of 32, an LSTM of 64 cells each" in first.stdout
    corpus = place / "left" / "corpus"
    second = run(corpus, *TOY_RUN, *LSTM, *RIGHT, "--out", place / "right")
    assert second.returncode == 0, second.stderr
    assert bertsmith("join", place / "left", place / "right", "--out", place / "both") == 0
    return place


def test_both_learn_and_their_perplexity_is_that_of_texts_they_have_not_read(place: Path) -> None:
    for name in ("left", "right"):
        rows = read_metrics(place / name / "metrics.jsonl")
        found = [float(row["evaluation_loss"] or 0.0) for row in rows if "evaluation_loss" in row]
        assert len(found) == 3
        assert found[-1] < found[0] < math.log(300)


def test_killed_and_resumed_ends_with_the_same_bytes(place: Path, tmp_path: Path) -> None:
    arguments = (place / "left" / "corpus", *TOY_RUN, *LSTM, *RIGHT, "--out", tmp_path / "run")
    killed_at(15, "pretrain", *arguments, BERTSMITH_FUSION="0")
    answer = run(*arguments)
    assert answer.returncode == 0, answer.stderr
    assert "going on after step 12 of 24" in answer.stdout
    check_equal(tmp_path / "run", place / "right")


def test_a_one_way_lstm_gives_perplexities_and_vectors(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--model", place / "right", "the cat sees the river .")
    assert bertsmith("predict", "pseudo-perplexity", *asked) == 0
    assert bertsmith("predict", "embed", *asked) == 0
    perplexity = float(capsys.readouterr().out.split()[0])
    assert 1.0 < perplexity < 100.0


def test_tags_are_learned_from_the_mix_of_all_states(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, dev = tagged(tmp_path / "train.txt", 60, 1), tagged(tmp_path / "dev.txt", 20, 2)
    layers = ("--layers", "weighted-sum-with-embeddings", "--out", tmp_path / "run")
    files = ("--tagged", train, "--dev", dev)
    assert bertsmith("finetune", place / "both", *files, *LEARN, *layers) == 0
    assert "layers embeddings, 1, 2 of every token" in capsys.readouterr().out
    learned, before = load(tmp_path / "run"), load(place / "both")
    assert learned.head is not None
    assert learned.head.layer_mix is not None
    assert len(learned.head.layer_mix.weights) == 3
    after = learned.model.state_dict()
    assert all(torch.equal(after[n], each) for n, each in before.model.state_dict().items())
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    losses = [float(row["loss"] or 0.0) for row in rows if "loss" in row]
    assert losses[-1] < 0.3 * losses[0]
    assert bertsmith("predict", tmp_path / "run", "the paris dog likes") == 0


@pytest.mark.parametrize(
    "choice",
    [("--on-top", "bilstm"), ("--on-top", "nothing", "--lstm-size", "768", "--pooling", "mean")],
)
def test_texts_are_classified_too(choice: tuple[str, ...], place: Path, tmp_path: Path) -> None:
    train, dev = texts(tmp_path / "train.csv", 40, 1), texts(tmp_path / "dev.csv", 20, 2)
    files = ("--texts", train, "--dev", dev, "--text-columns", "words", "--label-column", "about")
    layers = ("--layers", "1,2", "--out", tmp_path / "run")
    assert bertsmith("finetune", place / "both", *files, *LEARN, *layers, *choice) == 0


def test_all_states_are_extracted(place: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the cat sees the river .\nmy friend\n")
    out = ("--out", tmp_path / "all.safetensors", "--layers", "all")
    assert bertsmith("extract", tmp_path / "texts.txt", "--model", place / "both", *out) == 0
    vectors = load_file(tmp_path / "all.safetensors")["vectors"]
    assert vectors.shape[1] == 3 * 64


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("verify", "{both}"), "is none: it is of the kind two-way pair of LSTMs"),
        (("verify", "{left}"), "is none: it is of the kind LSTM"),
        (("convert", "{both}", "{out}", "--to", "onnx"), "onnxruntime has no two-way pair of LSTM"),
        (("convert", "{left}", "{out}", "--to", "hugging-face"), "transformers has no LSTM"),
        (
            ("predict", "attention", "--model", "{both}", "my friend"),
            "there is no attention of BERT's layers to look at",
        ),
        (("predict", "fill-mask", "--model", "{both}", "my [MASK]"), "holds no pre-training head"),
        (
            ("predict", "embed", "--model", "{both}", "--pooling", "cls", "my friend"),
            "the first token of a two-way model has on its left seen nothing but itself",
        ),
        (
            ("finetune", "{both}", "--texts", "{texts}", "--out", "{out}"),
            "has seen the whole text in all its numbers",
        ),
        (
            ("join", "{left}", "{left}", "--out", "{out}"),
            "joins one that is left_to_right and one that is",
        ),
        (("join", "{left}", "{right}", "--out", "{both}"), "exists already and is not empty"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line(
    arguments: tuple[str, ...],
    told: str,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {name: place / name for name in ("left", "right", "both")}
    places |= {"out": tmp_path / "out", "texts": tmp_path / "train.tsv"}
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + 20 * "my\ta\nyour\tb\n")
    assert bertsmith(*(word.format(**places) for word in arguments)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1 or "note:" in error
    assert not (tmp_path / "out" / "config.json").exists()
