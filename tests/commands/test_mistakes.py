"""A mistake in the arguments: one line that says what is wrong and what was perhaps meant."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands.accepted_options import options_of
from bertsmith.commands.mistakes import told_by_tyro
from bertsmith.commands.predict import FillMask, NextSentence


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder X of text, which would be missed first."""
    (tmp_path / "X").mkdir()
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], typed: str) -> str:
    """What the command line says to the mistake, without its name and the line's end."""
    assert cli.main(typed.split()) == cli.EXIT_MISTAKE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bertsmith: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("bertsmith: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("pretrain X --recipe paper-bas", "no --recipe 'paper-bas'; did you mean 'paper-base'?"),
        ("pretrain X --size=minni", "no --size 'minni'; did you mean 'mini'?"),
        ("pretrain X --optimiser.beta2 1", "'--optimiser.beta2'; did you mean '--optimizer.beta2'"),
        ("pretrain X --objectives masked_lm nxt_sentence", "did you mean 'next_sentence'?"),
        ("learn-vocab X --out O --no-case", "'--no-case'; did you mean '--no-cased'?"),
        ("learn-vocab X --out O --vocab_sise 3", "did you mean '--vocab-size'?"),
        (
            "pretrain X --optimizer.lr 1",
            "'--optimizer.lr'; did you mean '--optimizer.learning-rate'",
        ),
        ("pretrain X --lr 1", "'--lr'; did you mean '--optimizer.learning-rate'"),
        ("pretrain X --vs 1", "'--vs'; did you mean '--vocab-size'"),
        ("predict fil-mask", "predict has no command 'fil-mask'; did you mean 'fill-mask'?"),
    ],
)
def test_the_nearest_choice_is_named(
    typed: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer in told(capsys, typed)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("build-corpus X --format zzz", "auto, lines, prose, jsonl, parquet, wikiextractor"),
        ("learn-vocab X --out O --strip-accents zzz", "True, False"),
        ("predict zzz", "own questions: task, fill-mask, next-sentence"),
        ("predict", "fill-mask, next-sentence"),
        ("predict --jsonl", "fill-mask, next-sentence"),
        ("pretrain X --zzz", "bertsmith pretrain --help lists the options"),
        ("plot RUN -z", "bertsmith plot --help lists the options"),
    ],
)
def test_where_nothing_is_near_the_choices_are_named(
    typed: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer in told(capsys, typed)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("pretrain X --seed x", "--seed: expected a whole number, found 'x'"),
        ("pretrain X --minutes soon", "--minutes: expected a number, found 'soon'"),
        ("pretrain X --phases 3x4", "--phases: a phase is STEPSxLENGTHxBATCH"),
        ("build-corpus X --out O --vocab", "--vocab needs a value"),
        ("build-corpus X", "build-corpus needs --vocab and --out"),
        ("predict fill-mask x", "predict fill-mask needs --model"),
        ("verify", "verify needs MODEL: a name under models/, a path (a run stands for its newest "
         "checkpoint), or a Hub id; for example: bertsmith verify mini-en"),
        ("verify --jsonl --profile google", "verify needs MODEL: a name under models/"),
        ("verify --profile=google", "verify needs MODEL: a name under models/"),
        ("convert x", "convert needs OUT and --to; for example: bertsmith convert mini-en out/"),
        ("convert --to onnx x", "convert needs OUT: the directory to write; it must be new or"),
        ("extract", "extract needs FILE and --model and --out; for example: bertsmith extract"),
        ("learn-vocab X --out O --workers -1", "workers must not be negative, found -1"),
        ("pretrain --dropout True X", "--dropout is a switch and takes no value, found 'True'"),
        ("pretrain X --no-dropout=false", "--no-dropout is a switch and takes no value, found"),
        ("predict fill-mask --jsonl True", "--jsonl is a switch and takes no value, found 'True'"),
        ("learn-vocab X --out O --memory-mb 0", "memory_mb must be at least 1, found 0"),
        ("pretrain X --phases 10x1024x8", "a phase has sequences of 1024 tokens, but the model"),
        ("pretrain X --optimizer.beta1 7", "beta1 must be in [0, 1), found 7.0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_value_is_said(
    typed: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, typed).startswith(answer)


@pytest.mark.parametrize("typed", ["build-corpus X --seed x --vocap v", "plot --out --ot x"])
def test_a_misspelt_option_is_told_before_other_mistakes(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, typed).startswith("there is no option '--")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_only_tyro_can_tell_is_one_line_without_its_box(encoding: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "bertsmith", "quickstart", "X"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.stderr == "bertsmith: Unrecognized options: X\n"


def test_colours_are_left_out() -> None:
    box = "\x1b[31m╭─\x1b[0m T ─╮\n│ \x1b[1mMany: \x1b[0m│\n│ X │\n│ ─ │\n│ For full helptext"
    assert told_by_tyro(SystemExit(2), box).split() == ["Many:", "X"]


def test_the_nearest_of_what_stands_without_an_option_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["reproduce", "tabel5", "--list"]) == 2
    told = "bertsmith: experiments: there is no 'tabel5'; did you mean 'table5'?\n"
    assert capsys.readouterr().err == told


def test_the_options_known_here_are_those_that_the_help_lists(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    kinds = {"predict fill-mask": FillMask, "predict next-sentence": NextSentence}
    for name, command in cli.COMMANDS.items():
        if name != "predict":
            file, kind = command.options.split(".")
            kinds[name] = vars(importlib.import_module(f"bertsmith.commands.{file}"))[kind]
    for name, kind in kinds.items():
        with pytest.raises(SystemExit):
            cli.main([*name.split(), "--help"])
        words = re.findall(r"--[a-z][\w-]*(?:\.[\w-]+)*", capsys.readouterr().out)
        assert {option.name for option in options_of(kind)} == {*words} - {"--help"}, name
