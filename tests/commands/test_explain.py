"""`bertsmith explain`: everything is shown, whatever the model has, and mistakes are told."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest

from bertsmith import cli
from bertsmith.checkpoints import store
from bertsmith.inference import Predictor
from bertsmith.tasks.hidden_places import Hiding
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_config, tiny_model, tiny_tokenizer
from tests.tasks.figures import (
    KOREAN,
    LANGUAGE_MODEL,
    PAIR,
    SEGMENTS,
    TOKENS,
    figure_model,
    figure_tokenizer,
)

ON_CPU = ("--device", "cpu", "--precision", "fp32")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory of a model each, by what it was trained for."""
    folder = tmp_path_factory.mktemp("models")
    kinds = {"both": ("masked_lm", "next_sentence"), "masks": ("masked_lm",), "bare": ()}
    for name, objectives in kinds.items():
        model = figure_model(*objectives)
        store.save(folder / name, model, model.config, figure_tokenizer())
    for direction in ("left_to_right", "right_to_left"):
        model = figure_model(LANGUAGE_MODEL[direction], direction=direction)
        store.save(folder / direction, model, model.config, figure_tokenizer())
    lstm = figure_model("left_to_right_lm", direction="left_to_right", layer_kind="lstm")
    store.save(folder / "lstm", lstm, lstm.config, figure_tokenizer())
    return folder


def run(model, *arguments):
    return cli.main(["explain", *map(str, arguments), "--model", str(model), *ON_CPU])


def printed(capsys, model, *arguments):
    assert run(model, *arguments) == 0
    return capsys.readouterr()


def as_json(capsys, model, *arguments):
    return json.loads(printed(capsys, model, *arguments, "--jsonl").out)


def test_figure_2s_rows_are_printed_one_under_another(models, capsys) -> None:
    lines = printed(capsys, models / "both", *PAIR).out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.split()[:1] and line[0] in "tsp"}
    first = next(line for line in lines if line.startswith("token "))
    assert first.split() == ["token", *TOKENS]
    assert rows["segment"].split() == ["segment", *("AB"[segment] for segment in SEGMENTS)]
    assert rows["position"].split() == ["position", *map(str, range(len(TOKENS)))]
    beginnings = [first.index(f" {token}") for token in ("my", "cute", "likes", "##ing")]
    assert [rows["position"].index(f" {row} ") for row in (1, 4, 7, 9)] == beginnings


def test_as_json_everything_equals_the_other_answers(models, capsys) -> None:
    found = as_json(capsys, models / "both", *PAIR, "--seed", 3, "--layer", 1, "--head", 2)
    predictor = Predictor.load(models / "both", precision="fp32")
    assert (tuple(found["tokens"]), found["segments"]) == (TOKENS, SEGMENTS)
    assert found["positions"] == list(range(11))
    expected = predictor.explain(*PAIR, Hiding(seed=3))
    places = expected.hidden.places
    assert [each["position"] for each in found["places"]] == [place.row for place in places]
    assert [each["fate"] for each in found["places"]] == [place.fate for place in places]
    for each, guess, sides in zip(
        found["places"], expected.guesses, expected.one_sided, strict=True
    ):
        for name, whose in (
            ("guess", guess),
            ("both_sides", sides.both),
            ("left_alone", sides.left),
        ):
            assert each[name]["rank"] == whose.rank
            shown = [candidate["probability"] for candidate in each[name]["candidates"]]
            assert shown == pytest.approx([c.probability for c in whose.candidates], rel=1e-4)
    (follows,) = predictor.next_sentence([PAIR])
    assert found["follows"] == pytest.approx(follows.probability, rel=1e-5)
    look = predictor.look(*PAIR).attention[0, 1]
    assert np.array(found["attention"]) == pytest.approx(look, abs=1e-6)
    assert (found["seed"], found["layer"], found["head"]) == (3, 1, 2)


def test_a_seed_is_repeatable_and_another_is_another(models, capsys) -> None:
    outputs = [printed(capsys, models / "both", *PAIR, "--seed", seed).out for seed in (7, 7, 8)]
    assert outputs[0] == outputs[1] != outputs[2]
    default = printed(capsys, models / "both", *PAIR).out
    assert default == printed(capsys, models / "both", *PAIR, "--seed", 0).out


def test_masks_can_be_other_than_the_papers(models, capsys) -> None:
    options = ("--masking.rate", "1.0", "--masking.mask-share", "0", "--masking.random-share", "0")
    found = as_json(capsys, models / "both", *PAIR, *options)
    assert {place["fate"] for place in found["places"]} == {"kept"}
    assert len(found["places"]) == 8
    assert found["masking"]["rate"] == 1.0


def test_a_hidden_word_and_a_written_mask_ask_the_same(models, capsys) -> None:
    written = as_json(capsys, models / "both", KOREAN.replace("어제", "[MASK]"))["places"]
    hidden = as_json(capsys, models / "both", KOREAN, "--hide", "어제")["places"]
    assert (written[0]["token"], hidden[0]["token"]) == ("[MASK]", "어제")
    assert written[0]["guess"]["right"] is None
    assert hidden[0]["guess"]["right"]["token"] == "어제"
    for side in ("guess", "both_sides", "left_alone"):
        assert written[0][side]["candidates"] == hidden[0][side]["candidates"]
    assert (
        len(as_json(capsys, models / "both", *PAIR, "--hide", "my", "--hide", "he")["places"]) == 2
    )


def test_the_right_token_is_marked_among_the_candidates_or_behind_them(models, capsys) -> None:
    first = printed(capsys, models / "both", *PAIR, "--hide", "dog", "--top-k", 1).out
    every = printed(capsys, models / "both", *PAIR, "--hide", "dog", "--top-k", 100).out
    for out in (first, every):  # what it says there; then from both sides and the left alone
        assert out.count("✓ dog") == 3
        assert out.count("no. ") == 3
    lines = first.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("2 dog → [MASK]"))
    assert lines[place + 2].startswith("✓ dog")
    assert lines[place + 3] == ""


@pytest.mark.parametrize(
    "model", ["both", "masks", "bare", "left_to_right", "right_to_left", "lstm"]
)
@pytest.mark.parametrize("sentences", [PAIR, (KOREAN,), ("my",)])
def test_every_model_is_drawn_with_what_it_has(models, capsys, model, sentences) -> None:
    shown = printed(capsys, models / model, *sentences)
    has = {
        "masked LM": model in ("both", "masks", "bare"),
        "✓": model != "bare",
        "IsNext": model == "both" and len(sentences) == 2,
        "left alone": model in ("both", "masks"),
        "What it foretells": model.endswith(("left", "right", "lstm")),
        "Attention: layer 2 of 2": model != "lstm",
        "BERT: both sides": True,
        "GPT: left to right": model != "lstm",
        "ELMo: left to right": model == "lstm",
        "ELMo: right to left": model == "right_to_left",
    }
    assert {words: words in shown.out for words in has} == has
    assert ("no language-model head" in shown.err) == (model == "bare")
    assert ("no next-sentence head" in shown.err) == (model != "both" and len(sentences) == 2)


def test_a_model_that_reads_one_way_is_named_as_this_model(models, capsys) -> None:
    out = printed(capsys, models / "left_to_right", *PAIR).out
    assert "reads from left to right" in " ".join(out.split())
    lines = out.splitlines()
    (title,) = (number for number, line in enumerate(lines) if "GPT: left" in line)
    assert lines[title + 1].index("this model") == lines[title].index("GPT: left")


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_line_is_wider_than_the_terminal(models, capsys, monkeypatch, columns) -> None:
    from rich.cells import cell_len

    monkeypatch.setenv("COLUMNS", columns)
    for sentences in (PAIR, (KOREAN,), ("dog " * 22,)):
        out = printed(capsys, models / "both", *sentences).out
        assert max(map(cell_len, out.splitlines())) <= int(columns)
        assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_colour_changes_no_character(models, capsys, monkeypatch) -> None:
    import re

    plain = printed(capsys, models / "both", *PAIR).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = printed(capsys, models / "both", *PAIR).out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR")
    assert printed(capsys, models / "both", *PAIR).out == plain


def test_tokens_that_the_vocabulary_lacks_are_counted(models, capsys) -> None:
    assert "are [UNK] to this model: 2" in printed(capsys, models / "both", "my zebra ran").err


def test_decomposed_hangul_is_named(tmp_path, capsys) -> None:
    model = tiny_model()
    tokenizer = Tokenizer([*VOCABULARY[:-1], "개"], TokenizerConfig(strip_accents=False))
    store.save(tmp_path / "m", model, model.config, tokenizer)
    told = "note: 1 of the 1 texts that were read hold Hangul that is decomposed into jamo"
    assert told not in printed(capsys, tmp_path / "m", "my 개").err
    assert told in printed(capsys, tmp_path / "m", unicodedata.normalize("NFD", "my 개")).err


MISTAKES = {
    (): "explain takes one sentence or the two of a pair, found 0",
    ("a", "b", "c"): "found 3: quote each",
    ("my dog", "--layer", "3"): "layer must be 1 to 2 for this model, found 3",
    ("my dog", "--head", "9"): "head must be 1 to 4 for this model, found 9",
    ("my dog", "--layer", "0"): "--layer must be at least 1, found 0",
    ("my dog", "--top-k", "0"): "--top-k must be at least 1, found 0",
    ("my dog", "--seed", "-1"): "--seed must be from 0 to",
    ("my dog", "--seed", str(2**70)): "--seed must be from 0 to",
    ("my dog", "--hide", "cat"): "no word 'cat' to hide: the words are my, dog",
    ("my dog", "--hide", "dog", "--seed", "1"): "--seed is for tokens that are chosen by lot",
    ("[MASK] dog", "--masking.rate", "0.5"): "[MASK] in the sentence marks them",
    ("my dog", "--masking.rate", "3"): "rate must be between 0 and 1",
    ("my dog", "--masking.fixed-copies", "3"): "says nothing to one example",
    ("my dog", "  "): "' ' has no token",
    ("dog " * 40,): "42 tokens are more than the 24 that the model reads",
    ("my dog", "--out", "a.pdf"): "--out draws a .png or a .svg file, found 'a.pdf'",
    ("my dog", "--out", "a.svg", "--jsonl"): "leave one out",
    ("my dog", "--force"): "name the file with --out",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=lambda arguments: " ".join(arguments)[:40])
def test_a_mistake_is_one_line_and_status_2(models, capsys, arguments) -> None:
    assert run(models / "both", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert MISTAKES[arguments] in captured.err


@pytest.mark.parametrize("option", ["--layer", "--head"])
def test_no_map_is_chosen_of_a_model_without_attention(models, capsys, option) -> None:
    assert run(models / "lstm", "my dog", option, "1") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{option} chooses a map of attention, and a model of the kind LSTM" in captured.err
    found = as_json(capsys, models / "lstm", "my dog", "--hide", "dog")
    assert (found["layer"], found["head"], found["attention"]) == (None, None, None)
    assert found["places"][0]["guess"]["right"]["token"] == "dog"


def test_a_pair_for_a_model_of_one_segment_is_refused(tmp_path, capsys) -> None:
    config = tiny_config(type_vocab_size=1)
    store.save(tmp_path / "one", tiny_model(type_vocab_size=1), config, tiny_tokenizer())
    assert run(tmp_path / "one", "my dog", "he likes") == 2
    assert "type_vocab_size 1" in capsys.readouterr().err
    assert run(tmp_path / "one", "my dog") == 0


def test_without_a_model_the_projects_own_for_the_script_is_taken(
    tmp_path, monkeypatch, capsys
) -> None:
    from bertsmith.commands import explain

    monkeypatch.setattr(explain, "named_places", lambda name: [str(tmp_path / name)])
    assert cli.main(["explain", "my dog", *ON_CPU]) == 2
    assert "name a model with --model: mini-en, which stands in" in capsys.readouterr().err
    assert cli.main(["explain", "우리 dog", *ON_CPU]) == 2
    assert "mini-en" in capsys.readouterr().err  # more letters are Latin
    assert cli.main(["explain", "피곤해 보이네", *ON_CPU]) == 2
    assert "mini-ko" in capsys.readouterr().err


@pytest.mark.drawn
def test_a_file_that_exists_is_replaced_only_by_force(models, tmp_path, capsys) -> None:
    out = tmp_path / "a.svg"
    out.write_text("older")
    assert run(models / "both", "my dog", "--out", out) == 2
    assert "exists: name another file, or replace it with --force" in capsys.readouterr().err
    assert out.read_text() == "older"
    assert run(models / "both", "my dog", "--out", out, "--force") == 0
    assert "<svg" in out.read_text()
    assert capsys.readouterr().out == f"wrote {out}\n"


def test_no_positions_of_the_model_are_left_unused() -> None:
    assert CONFIG.max_position_embeddings == 24  # what the mistakes above count on


def test_hangul_that_a_model_breaks_is_told(models, tmp_path, capsys) -> None:
    assert "jamo" not in printed(capsys, models / "both", KOREAN).err
    whole = figure_tokenizer()
    config = replace(whole.config, strip_accents=True)
    model = figure_model("masked_lm")
    store.save(tmp_path / "model", model, model.config, Tokenizer(whole.vocabulary, config))
    assert "falls apart into jamo" in printed(capsys, tmp_path / "model", KOREAN).err
