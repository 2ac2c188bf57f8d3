import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from bertsmith.commands.mistakes import mistake_in
from bertsmith.commands.predict_options import (
    Asking,
    Attention,
    Embed,
    FillMask,
    NextSentence,
    Predict,
    PseudoPerplexity,
    Similarity,
    refuse_to_generate,
    run_or_question,
)

ASKING = Asking(model="m")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fill-mask a_[MASK] --top-k 2", FillMask(asking=ASKING, texts=("a_[MASK]",), top_k=2)),
        ("next-sentence a b --jsonl", NextSentence(asking=ASKING, texts=("a", "b"), jsonl=True)),
        ("embed a --pooling cls --is-normalized True",
         Embed(asking=ASKING, texts=("a",), pooling="cls", is_normalized=True)),
        ("similarity a b", Similarity(asking=ASKING, texts=("a", "b"))),
        ("pseudo-perplexity a --tokens",
         PseudoPerplexity(asking=ASKING, texts=("a",), tokens=True)),
        ("attention a --layer 2 --head 1", Attention(asking=ASKING, texts=("a",), layer=2, head=1)),
        ("embed --file a - --precision bf16 --device cpu",
         Embed(asking=Asking(model="m", file=(Path("a"), Path("-")), precision="bf16",
                             device="cpu"))),
    ],
)  # fmt: skip
def test_the_command_line_names_every_question(line, expected):
    assert tyro.cli(Predict, args=[*line.split(), "--model", "m"]) == expected


def test_a_missing_model_and_a_misspelt_precision_are_named():
    assert mistake_in(["embed", "a"], Predict, "predict") == "predict embed needs --model"
    told = mistake_in(["embed", "--model", "m", "--precision", "bf61"], Predict, "predict")
    assert told == "there is no --precision 'bf61'; did you mean 'bf16'?"
    told = mistake_in(["embed", "--model", "m", "--pooling", "meen"], Predict, "predict")
    assert told == "there is no --pooling 'meen'; did you mean 'mean'?"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FillMask(asking=ASKING, top_k=0), "--top-k must be at least 1, found 0"),
        (lambda: Attention(asking=ASKING, top_k=-1), "--top-k must be at least 1, found -1"),
        (lambda: Attention(asking=ASKING, layer=0), "--layer must be at least 1, found 0"),
        (lambda: Attention(asking=ASKING, head=0), "--head must be at least 1, found 0"),
        (lambda: Attention(asking=ASKING, out=Path("a.txt")), "--out writes a .npz file"),
        *(
            (lambda options=options: Attention(asking=ASKING, out=Path("a.npz"), **options), told)
            for options, told in (
                ({"layer": 1, "head": 2}, "^--layer and --head choose what is printed"),
                ({"top_k": 3, "jsonl": True}, "^--top-k and --jsonl choose what is printed"),
                ({"without_special": True}, "^--without-special choose"),
            )
        ),
    ],
)
def test_what_no_model_could_answer_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_only_requests_to_generate_are_refused():
    for word in ("fill-mask", "attention", "--help", "generator"):
        assert refuse_to_generate([word, "generate"]) is tyro.MISSING_NONPROP
    assert refuse_to_generate([]) is tyro.MISSING_NONPROP
    with pytest.raises(ValueError, match=r"does not generate it \('Generate'\)"):
        refuse_to_generate(["Generate", "--model", "m"])


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("runs/a text", "task runs/a text"),
        ("task runs/a text", "task runs/a text"),
        ("embed a --model m", "embed a --model m"),
        ("embedd a", "embedd a"),
        ("fill-blank --model m a", "fill-blank --model m a"),
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_a_first_word_that_names_no_question_is_a_run(typed, expected):
    assert list(run_or_question(typed.split())) == expected.split()


def test_the_options_are_read_without_torch():
    code = "import sys, bertsmith.commands.predict; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
