import dataclasses
import io
import json
import math
import shutil
import sys
import unicodedata

import numpy as np
import pytest
import torch

from bertsmith import cli
from bertsmith.checkpoints import sentence_dense, sentence_transformers, store
from bertsmith.commands import stages
from bertsmith.commands.predict import predict
from bertsmith.commands.predict_options import (
    Asking,
    Attention,
    Embed,
    FillMask,
    NextSentence,
    PseudoPerplexity,
    Similarity,
)
from bertsmith.inference import Predictor
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_config, tiny_model, tiny_tokenizer
from tests.model.dense import random_dense


def by(model, *files):
    return Asking(model=str(model), file=files, device="cpu", precision="fp32")


def answers(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_arguments_and_files_are_answered_in_order_as_json_lines(model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the [MASK]\n\nmy [MASK] is [MASK]\r\n")
    asking = by(model, tmp_path / "a.txt")
    predict(FillMask(asking=asking, texts=("a [MASK] .",), top_k=2, jsonl=True))
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
    predict(FillMask(asking=by(model), texts=("my [MASK] is [MASK]",), top_k=2))
    shown = capsys.readouterr().out
    assert "my [MASK] is [MASK]" in shown
    rows = [line.split() for line in shown.splitlines() if line.split()[-1:] and "0." in line]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]


def test_a_pipe_is_read_where_nothing_else_is_given(model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the [MASK]\nmy [MASK]\n")))
    predict(FillMask(asking=by(model), jsonl=True))
    assert [answer["text"] for answer in answers(capsys)] == ["the [MASK]", "my [MASK]"]


def test_a_line_without_a_mask_is_named_before_any_model_is_looked_for(tmp_path):
    (tmp_path / "a.txt").write_text("the [MASK]\nthe dog\n")
    with pytest.raises(ValueError, match=r"a\.txt:2: no \[MASK\] in 'the dog'"):
        predict(FillMask(asking=by("no/such/model", tmp_path / "a.txt")))
    with pytest.raises(ValueError, match=r"text 1: no \[MASK\]"):
        predict(FillMask(asking=by("no/such/model"), texts=("the dog",)))


def test_a_binary_file_is_named(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\xff\xd8\x00")
    with pytest.raises(ValueError, match=r"a\.bin:1: NUL byte at byte 2: this is not UTF-8"):
        predict(FillMask(asking=by("m", tmp_path / "a.bin")))


def test_over_long_texts_are_answered_and_counted(model, capsys):
    texts = (f"[MASK] {'dog ' * 40}", "the [MASK]")
    predict(FillMask(asking=by(model), texts=texts, jsonl=True))
    captured = capsys.readouterr()
    assert [json.loads(line)["num_unread"] for line in captured.out.splitlines()] == [19, 0]
    assert "1 of 2 were longer than the 24 tokens" in captured.err


@pytest.mark.parametrize("text", ["\u0645\u0631\u062d\u0628\u0627", "the dog"])
def test_words_that_the_model_does_not_know_are_told(text, model, capsys):
    predict(Similarity(asking=by(model), texts=(text, "the dog")))
    predict(Embed(asking=by(model), texts=(text,)))
    told = [line for line in capsys.readouterr().err.splitlines() if "[UNK]" in line]
    counts = ["1 of the 3 tokens", "1 of the 1 tokens"] if text != "the dog" else []
    assert [line.removeprefix("note: ").partition(" that were read")[0] for line in told] == counts


KOREAN = "개 는 [MASK]"


@pytest.fixture(scope="module")
def korean(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "korean"
    entries = [*VOCABULARY[:-2], "개", "는"]
    store.save(
        directory, tiny_model(), CONFIG, Tokenizer(entries, TokenizerConfig(strip_accents=False))
    )
    return str(directory)


@pytest.mark.parametrize(
    ("question", "num_texts"),
    [(FillMask, 1), (NextSentence, 2), (Embed, 1), (Similarity, 2), (PseudoPerplexity, 1),
     (Attention, 2)],
)  # fmt: skip
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_decomposed_hangul_is_named(question, num_texts, form, korean, tmp_path, capsys):
    texts = [unicodedata.normalize(form, KOREAN)] * num_texts
    (tmp_path / "a.txt").write_text("\t".join(texts) + "\n", encoding="utf-8")
    asking = [{"asking": by(korean), "texts": (*texts,)}]
    asking.append({"asking": by(korean, tmp_path / "a.txt")})
    if question is Attention:
        asking.append({**asking[0], "out": tmp_path / "a.npz"})
    for options in asking:
        predict(question(**options))
        told = f"note: {num_texts} of the {num_texts} texts that were read hold Hangul that is dec"
        assert capsys.readouterr().err.count(told) == (form == "NFD")


def test_pairs_come_as_two_arguments_or_as_lines_with_a_tab(model, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("my dog\the likes\nthe cat\tparis\n")
    predict(NextSentence(asking=by(model, tmp_path / "pairs.tsv"), jsonl=True))
    from_file = answers(capsys)
    predict(NextSentence(asking=by(model), texts=("my dog", "he likes"), jsonl=True))
    assert answers(capsys)[0] == pytest.approx(from_file[0])
    assert (from_file[1]["first"], from_file[1]["second"]) == ("the cat", "paris")
    assert 0.0 < from_file[1]["probability"] < 1.0


def test_a_pair_that_is_no_pair_is_named(model, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\nmy dog he likes\n")
    with pytest.raises(ValueError, match=r"pairs\.tsv:2: expected two texts with one tab"):
        predict(NextSentence(asking=by(model, tmp_path / "pairs.tsv")))
    with pytest.raises(ValueError, match="a pair is two texts, found 3"):
        predict(NextSentence(asking=by(model), texts=("a", "b", "c")))


def test_a_model_without_a_next_sentence_head_is_named(tmp_path):
    store.save(tmp_path / "m", tiny_model("masked_lm"), tiny_config(), tiny_tokenizer())
    run = NextSentence(asking=by(tmp_path / "m"), texts=("a", "b"))
    with pytest.raises(ValueError, match="was pre-trained for masked_lm only"):
        predict(run)


def test_vectors_are_json_lines_with_every_digit_of_a_float32(model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the dog\nmy cat likes paris\n")
    texts = ("dog " * 40, "the dog", "my cat likes paris")
    predict(Embed(asking=by(model, tmp_path / "a.txt"), texts=texts[:1], pooling="max"))
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [answer["num_unread"] for answer in found] == [18, 0, 0]
    assert [answer["text"] for answer in found] == list(texts)
    expected = Predictor.load(model, precision="fp32").sentence_vectors(texts, pooling="max")
    for answer, one in zip(found, expected, strict=True):
        assert np.array_equal(np.array(answer["vector"], np.float32), one.vector)
    assert "1 of 3 were longer than the 24 tokens that the model reads: their end" in captured.err


def test_likeness_comes_as_a_line_or_as_json(model, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("my dog\the likes\na cat\ta cat\n")
    predict(Similarity(asking=by(model, tmp_path / "pairs.tsv"), jsonl=True))
    first, second = answers(capsys)
    assert (first["first"], first["second"]) == ("my dog", "he likes")
    assert second["cosine"] == pytest.approx(1)
    predict(Similarity(asking=by(model), texts=("my dog", "he likes")))
    assert capsys.readouterr().out == f"{first['cosine']:.4f}  my dog | he likes\n"


def test_texts_are_scored_one_by_one_and_together(model, capsys):
    texts = ("the dog likes my cat", "a zebra")
    predict(PseudoPerplexity(asking=by(model), texts=texts, jsonl=True, tokens=True))
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    values = [[token["log_likelihood"] for token in answer["tokens"]] for answer in found]
    for answer, of_one in zip(found, values, strict=True):
        assert answer["perplexity"] == pytest.approx(math.exp(-np.mean(of_one)), rel=1e-5)
    assert found[0]["tokens"][1]["token"] == "dog"
    assert found[0]["tokens"][1]["span"] == [4, 7]
    together = math.exp(-np.mean([*values[0], *values[1]]))
    assert f"2 texts, 7 tokens: {together:.2f}" in captured.err
    assert "tokens that are [UNK] to this model: 1" in captured.err
    predict(PseudoPerplexity(asking=by(model), texts=texts[:1]))
    captured = capsys.readouterr()
    assert captured.out == f"{found[0]['perplexity']:.2f}  {texts[0]}\n"
    assert captured.err == ""


def test_a_table_shows_every_tokens_probability(model, capsys):
    predict(PseudoPerplexity(asking=by(model), texts=("the dog",), tokens=True))
    (answer,) = Predictor.load(model, precision="fp32").pseudo_perplexity(["the dog"])
    shown = capsys.readouterr().out
    for token, value in zip(("the", "dog"), answer.log_likelihoods, strict=True):
        assert [token, f"{math.exp(value):.4f}"] in [line.split() for line in shown.splitlines()]


def test_many_texts_are_scored_a_few_at_a_time_in_order(model, tmp_path, capsys):
    texts = ["the dog", "a cat is hairy", "paris"] * 30
    (tmp_path / "a.txt").write_text("\n".join(texts))
    predict(PseudoPerplexity(asking=by(model, tmp_path / "a.txt"), jsonl=True))
    found = answers(capsys)
    assert [answer["text"] for answer in found] == texts
    values = [answer["perplexity"] for answer in found]
    assert values == pytest.approx(values[:3] * 30, rel=1e-4)


def test_a_text_longer_than_the_model_is_scored_whole(model, capsys):
    predict(PseudoPerplexity(asking=by(model), texts=("dog " * 40,), jsonl=True))
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["num_tokens"] == 40
    assert answer["is_windowed"]
    assert "1 of 1 were longer than the 24 tokens" in captured.err


def test_the_strongest_links_are_shown_for_the_head_asked_for(model, capsys):
    run = Attention(asking=by(model), texts=("the dog", "he likes"), layer=1, head=3, top_k=2)
    predict(dataclasses.replace(run, jsonl=True))
    (answer,) = answers(capsys)
    seen = Predictor.load(model, precision="fp32").look("the dog", "he likes")
    weights = seen.attention[0, 2]
    assert (answer["layer"], answer["head"]) == (1, 3)
    assert answer["links"][0]["weight"] == pytest.approx(float(weights.max()))
    assert answer["tokens"] == ["[CLS]", "the", "dog", "[SEP]", "he", "likes", "[SEP]"]
    predict(run)
    shown = capsys.readouterr().out
    assert "layer 1 of 2, head 3 of 4: [CLS] the dog [SEP] he likes [SEP]" in shown
    assert f"{weights.max():.4f}" in shown


def test_a_file_holds_all_layers_of_one_text(model, tmp_path, capsys):
    out = tmp_path / "seen" / "a.npz"
    run = Attention(asking=by(model), texts=("the [MASK]",), out=out, special_tokens_in_text=True)
    predict(run)
    assert f"{out}: tokens, spans" in capsys.readouterr().out
    with np.load(out, allow_pickle=False) as arrays:
        assert arrays["tokens"].tolist() == ["[CLS]", "the", "[MASK]", "[SEP]"]
        assert arrays["spans"].tolist() == [[0, 0], [0, 3], [4, 10], [0, 0]]
        assert arrays["segments"].tolist() == [0, 0, 0, 0]
        assert arrays["attention"].shape == (2, 4, 4, 4)
        assert arrays["hidden"].shape == (3, 4, CONFIG.hidden_size)


def test_a_file_that_exists_is_replaced_only_by_force(model, tmp_path, capsys):
    out = tmp_path / "a.npz"
    out.write_text("older")
    asked = ["predict", "attention", "the dog", "--out", str(out), "--device", "cpu"]
    assert cli.main([*asked, "--model", "no/such/model"]) == 2  # told before it is looked for
    error = capsys.readouterr().err.strip()
    assert error.endswith(f"{out} exists: name another file, or replace it with --force")
    assert "\n" not in error
    assert out.read_text() == "older"
    assert cli.main([*asked, "--model", model, "--force"]) == 0
    with np.load(out) as arrays:
        assert len(arrays["tokens"]) == 4
    (tmp_path / "b.npz").mkdir()
    with pytest.raises(ValueError, match="is a directory: name a file"):
        predict(Attention(asking=by(model), texts=("the dog",), out=tmp_path / "b.npz"))


def test_what_cannot_be_looked_into_is_told_before_any_model_is_looked_for(tmp_path):
    (tmp_path / "a.txt").write_text("the dog\nmy cat\n")
    asking = by("no/such/model", tmp_path / "a.txt")
    with pytest.raises(ValueError, match="--out takes one text or pair, found several"):
        predict(Attention(asking=asking, out=tmp_path / "a.npz"))
    with pytest.raises(ValueError, match="found 3 arguments"):
        predict(Attention(asking=by("no/such/model"), texts=("a", "b", "c")))


def test_a_layer_that_the_model_has_not_is_named(model):
    with pytest.raises(ValueError, match="layer must be 1 to 2 for this model, found 3"):
        predict(Attention(asking=by(model), texts=("the dog",), layer=3))


@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize(("question", "texts"), [(Embed, ("the dog",)), (Similarity, ("a", "cat"))])
def test_a_typed_pooling_says_that_it_leaves_the_dense_layer_out(
    model, tmp_path, capsys, question, texts, pooling
):
    layer = DenseConfig(in_features=CONFIG.hidden_size, out_features=7)
    own = SentenceConfig(pooling=("cls",), dense=layer)
    shutil.copytree(model, tmp_path / "m")
    sentence_transformers.write(tmp_path / "m", own, CONFIG.hidden_size)
    sentence_dense.write(tmp_path / "m", sentence_dense.dense_state(random_dense(layer)))
    predict(question(asking=by(tmp_path / "m"), texts=texts, pooling=pooling))
    told = "note: with a pooling of your own vectors are made without a dense layer to 7 (tanh)"
    assert (told in capsys.readouterr().err) is (pooling is not None)


@pytest.fixture(scope="module")
def of_one_segment(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "one"
    config = tiny_config(type_vocab_size=1)
    store.save(directory, tiny_model(type_vocab_size=1), config, tiny_tokenizer())
    return str(directory)


@pytest.mark.parametrize("what", ["next-sentence", "attention"])
def test_a_pair_for_a_model_of_one_segment_is_one_line_before_any_answer(
    what, of_one_segment, tmp_path, capsys
):
    options = ["--model", of_one_segment, "--device", "cpu"]
    assert cli.main(["predict", what, "my dog", "he likes", *options]) == 2
    (tmp_path / "a.txt").write_text("my dog\the likes\n")
    if what == "attention":  # which reads single texts too
        (tmp_path / "a.txt").write_text("the dog\nmy dog\the likes\n")
    assert cli.main(["predict", what, "--file", str(tmp_path / "a.txt"), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    told = captured.err.splitlines()
    assert len(told) == 2
    assert all("type_vocab_size 1" in line for line in told)
    assert what != "attention" or "a.txt:2: " in told[1]


def test_a_model_of_one_segment_compares_two_texts_and_reads_a_tab_as_a_space(
    of_one_segment, capsys
):
    predict(Similarity(asking=by(of_one_segment), texts=("my dog", "he likes"), jsonl=True))
    predict(FillMask(asking=by(of_one_segment), texts=("my dog\the [MASK]",), jsonl=True))
    predict(FillMask(asking=by(of_one_segment), texts=("my dog he [MASK]",), jsonl=True))
    similar, tab, space = answers(capsys)
    assert -1 <= similar["cosine"] <= 1
    assert tab["masks"] == space["masks"]


@pytest.mark.parametrize("word", ["generate", "chat", "Complete", "write", "text-generation"])
def test_a_request_to_generate_is_refused_in_one_line(word, capsys):
    assert cli.main(["predict", word, "Once upon a time", "--max-length", "50"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("bertsmith: BERT understands text and does not generate it")
    assert "fill-mask" in told
    assert "GPT" in told
    assert told.count("\n") == 1


NO_TOKEN = "\u200b"


@pytest.mark.parametrize(
    ("kind", "sound"), [(PseudoPerplexity, "the dog"), (NextSentence, "the dog\ta cat")]
)
def test_a_line_without_a_token_is_named_before_any_answer(kind, sound, model, tmp_path, capsys):
    lines = [sound, NO_TOKEN + sound[7:]]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    with pytest.raises(ValueError, match=r"a\.txt:2: '.*' has no token"):
        predict(kind(asking=by(model, tmp_path / "a.txt"), jsonl=True))
    assert capsys.readouterr().out == ""


def test_answers_before_a_mistake_in_the_pipe_are_written(model, capsys, monkeypatch):
    lines = f"the dog\na cat\n{NO_TOKEN}\nparis\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    with pytest.raises(ValueError, match=r"standard input:3: .* has no token"):
        predict(PseudoPerplexity(asking=by(model), jsonl=True))
    assert [answer["text"] for answer in answers(capsys)] == ["the dog", "a cat"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--targets", "dog", "--targets", "cat", "the [MASK]"],
        ["the [MASK]", "--targets", "dog", "--targets", "cat"],
    ],
)
def test_targets_leave_the_text_alone(arguments, model, capsys):
    asked = ["predict", "fill-mask", "--model", model, "--device", "cpu", "--jsonl", *arguments]
    assert cli.main(asked) == 0
    (answer,) = answers(capsys)
    assert {candidate["token"] for candidate in answer["masks"][0]} == {"dog", "cat"}


def test_two_words_behind_targets_are_told_how_to_ask(model, capsys):
    asked = ["predict", "fill-mask", "--model", model, "--targets", "dog", "cat", "the [MASK]"]
    assert cli.main(asked) == 2
    told = capsys.readouterr().err
    assert "text 1: no [MASK] in 'cat'" in told
    assert "each target has a --targets of its own" in told


def test_a_model_whose_weights_overflow_ends_in_one_line(tmp_path, capsys):
    broken = tiny_model()
    with torch.no_grad():
        broken.masked_lm.norm.weight[:] = 3e38
    store.save(tmp_path / "m", broken, CONFIG, tiny_tokenizer())
    asked = ["predict", "fill-mask", "--model", str(tmp_path / "m"), "--device", "cpu"]
    assert cli.main([*asked, "the [MASK]"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the model's probabilities are no finite numbers: found NaN" in captured.err


def test_a_file_shows_how_far_it_is_on_standard_error(model, tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("the dog likes my cat\n" * 2000)
    monkeypatch.setattr(stages, "_SECONDS_BETWEEN_LINES", 0.0)
    predict(Embed(asking=by(model, tmp_path / "a.txt")))
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 2000
    shown = [line for line in captured.err.splitlines() if line.startswith("predict: ")]
    assert len(shown) > 3  # every batch, though all texts are one window
    assert "answered)" in shown[1]
    assert shown[-1].startswith("predict: done in")
