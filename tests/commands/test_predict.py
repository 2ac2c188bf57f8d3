import io
import json
import sys

import pytest
import tyro

from bertsmith.checkpoints import store
from bertsmith.commands.predict import FillMask, NextSentence, Predict, predict
from tests.checkpoints.tiny import CONFIG, tiny_config, tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "tiny"
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer())
    return str(directory)


def answers(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_command_line_names_the_two_questions():
    run = tyro.cli(Predict, args=["fill-mask", "--model", "m", "a [MASK]", "--top-k", "2"])
    assert run == FillMask(model="m", texts=("a [MASK]",), top_k=2)
    run = tyro.cli(Predict, args=["next-sentence", "--model", "m", "one", "two", "--jsonl"])
    assert run == NextSentence(model="m", texts=("one", "two"), jsonl=True)


def test_arguments_and_files_are_answered_in_order_as_json_lines(model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the [MASK]\n\nmy [MASK] is [MASK]\r\n")
    run = FillMask(
        model=model, texts=("a [MASK] .",), file=(tmp_path / "a.txt",), top_k=2, jsonl=True,
        device="cpu",
    )  # fmt: skip
    predict(run)
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [answer["text"] for answer in found] == [
        "a [MASK] .",
        "the [MASK]",
        "my [MASK] is [MASK]",
    ]
    assert [len(answer["masks"]) for answer in found] == [1, 1, 2]
    assert all(len(candidates) == 2 for answer in found for candidates in answer["masks"])
    assert found[0]["filled"] == f"a {found[0]['masks'][0][0]['token']} ."
    assert "blank lines passed over: 1" in captured.err


def test_a_table_shows_every_mask_and_the_text_literally(model, capsys):
    predict(FillMask(model=model, texts=("my [MASK] is [MASK]",), top_k=2, device="cpu"))
    shown = capsys.readouterr().out
    assert "my [MASK] is [MASK]" in shown
    rows = [line.split() for line in shown.splitlines() if line.split()[-1:] and "0." in line]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]


def test_a_pipe_is_read_where_nothing_else_is_given(model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("the [MASK]\nmy [MASK]\n"))
    predict(FillMask(model=model, jsonl=True, device="cpu"))
    assert [answer["text"] for answer in answers(capsys)] == ["the [MASK]", "my [MASK]"]


def test_a_line_without_a_mask_is_named_before_any_model_is_looked_for(tmp_path):
    (tmp_path / "a.txt").write_text("the [MASK]\nthe dog\n")
    with pytest.raises(ValueError, match=r"a\.txt:2: no \[MASK\] in 'the dog'"):
        predict(FillMask(model="no/such/model", file=(tmp_path / "a.txt",), device="cpu"))
    with pytest.raises(ValueError, match=r"text 1: no \[MASK\]"):
        predict(FillMask(model="no/such/model", texts=("the dog",), device="cpu"))


def test_a_binary_file_is_named(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"a\.bin is not UTF-8 text"):
        predict(FillMask(model="m", file=(tmp_path / "a.bin",), device="cpu"))


def test_over_long_texts_are_answered_and_counted(model, capsys):
    texts = (f"[MASK] {'dog ' * 40}", "the [MASK]")
    predict(FillMask(model=model, texts=texts, jsonl=True, device="cpu"))
    captured = capsys.readouterr()
    assert [json.loads(line)["num_unread"] for line in captured.out.splitlines()] == [19, 0]
    assert "1 of 2 were longer than the 24 tokens" in captured.err


def test_pairs_come_as_two_arguments_or_as_lines_with_a_tab(model, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("my dog\the likes\nthe cat\tparis\n")
    predict(NextSentence(model=model, file=(tmp_path / "pairs.tsv",), jsonl=True, device="cpu"))
    from_file = answers(capsys)
    predict(NextSentence(model=model, texts=("my dog", "he likes"), jsonl=True, device="cpu"))
    assert answers(capsys)[0] == pytest.approx(from_file[0])
    assert from_file[1]["first"], from_file[1]["second"] == ("the cat", "paris")
    assert 0.0 < from_file[1]["probability"] < 1.0


def test_a_pair_that_is_no_pair_is_named(model, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\nmy dog he likes\n")
    with pytest.raises(ValueError, match=r"pairs\.tsv:2: expected two texts with one tab"):
        predict(NextSentence(model=model, file=(tmp_path / "pairs.tsv",), device="cpu"))
    with pytest.raises(ValueError, match="a pair is two texts, found 3"):
        predict(NextSentence(model=model, texts=("a", "b", "c"), device="cpu"))


def test_a_model_without_a_next_sentence_head_is_named(tmp_path):
    store.save(tmp_path / "m", tiny_model("masked_lm"), tiny_config(), tiny_tokenizer())
    run = NextSentence(model=str(tmp_path / "m"), texts=("a", "b"), device="cpu")
    with pytest.raises(ValueError, match="was pre-trained for masked_lm only"):
        predict(run)
