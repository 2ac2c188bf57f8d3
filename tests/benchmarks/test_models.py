from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks import models, perplexity
from benchmarks.cloze import Row, Score
from bertsmith.checkpoints.store import save
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import stretched
from bertsmith.runs.directory import Record, checkpoint_path, write_record
from tests.checkpoints.tiny import tiny_config, tiny_model, tiny_tokenizer

SHARES = {"model": 0.5, "unigram": 0.0, "trigram": 0.25, "trigram_both_sides": 0.5}
SCORE = Score(questions=4, top_1=SHARES, top_5=SHARES)
ROW = Row(
    corpus="corpus",
    train_tokens=1_234,
    language="en",
    questions=4,
    questions_left_out=0,
    answers_left_out=0,
    scores={"all": SCORE},
    held_out={
        "evaluation_loss": 2.0,
        "evaluation_perplexity": 7.389,
        "evaluation_accuracy": 0.5,
    },
    held_out_sequences=16,
    counting_seconds=0.1,
)
FIGURES = {
    name: perplexity.Figures(loss=2.0, perplexity=number, accuracy=0.5)
    for name, number in (("model", 7.389), ("trigram_both_sides", 9.5))
}
PERPLEXITIES = perplexity.Row(
    corpus="corpus",
    train_tokens=1_234,
    sequences=16,
    targets=100,
    masked=80,
    all=FIGURES,
    only_masked=FIGURES,
    counting_seconds=0.1,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run that ended after 8 steps."""
    directory = tmp_path / "run"
    directory.mkdir()
    finished = stretched(mini_cpu(), 8)
    record = Record(
        run=finished,
        corpus=tmp_path / "corpus",
        corpus_fingerprint="ab" * 32,
        command="bertsmith pretrain corpus",
        request={},
        notes=(),
        seconds_per_step=(0.5,) * len(finished.phases),
        peak_bytes=1,
        unigram_entropy=3.0,
        versions={"bertsmith": "0.1.0", "torch": "2.13.0", "threads": "2"},
    )
    write_record(directory, record)
    rows = [{"step": step, "tokens": 1_000_000, "seconds": 30.0} for step in range(1, 9)]
    rows.insert(4, {"step": 4, "evaluation_loss": 2.0})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (directory / "metrics.jsonl").write_text(lines, encoding="utf-8")
    save(checkpoint_path(directory, 8), tiny_model(), tiny_config(), tiny_tokenizer())
    return directory


def test_a_model_is_written_in_bf16_with_the_figures_that_were_measured_on_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.md"
    texts.write_text("The text of a test.", encoding="utf-8")
    rows: list[tuple[str, object]] = []
    monkeypatch.setattr(models, "measure", lambda *_: ROW)
    monkeypatch.setattr(models.perplexity, "measure", lambda *_: PERPLEXITIES)
    monkeypatch.setattr(models, "append_row", lambda *row: rows.append(row))
    monkeypatch.setattr(models, "held_out_questions", lambda *_: [])
    monkeypatch.setattr(models.Corpus, "open", lambda *_: None)
    arguments = [str(run), "--name", "toy", "--texts", str(texts), "--models", str(tmp_path / "m")]
    monkeypatch.setattr(sys, "argv", ["models", *arguments])
    models.main()
    weights = load_file(tmp_path / "m" / "toy" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    card = (tmp_path / "m" / "toy" / "README.md").read_text(encoding="utf-8")
    for part in (
        "license: cc-by-sa-3.0",
        "The text of a test.",
        "| masked-LM loss | 2.000 nats |",
        "| trigram | 25.0% | 25.0% |",
        "| trigram both sides | 9.5 (50.0%) | 9.5 (50.0%) |",
        "`bertsmith pretrain corpus`",
        "8.0M tokens in\n4 min",
    ):
        assert part in card, part
    assert [benchmark for benchmark, _ in rows] == ["cloze", "perplexity"]
    with pytest.raises(SystemExit, match="stands already"):
        models.main()


@pytest.mark.parametrize(
    ("left_out", "sentence"),
    [
        (0, "the 4 cloze sentences in `benchmarks/cloze/en.jsonl`"),
        (2, "4 of the 6 cloze sentences in `benchmarks/cloze/en.jsonl` (the answers of the others "
            "are no single token of this vocabulary)"),
    ],
)  # fmt: skip
def test_sentences_left_out_are_told_where_there_are_any(left_out: int, sentence: str) -> None:
    told = models.cloze_sentences(replace(ROW, questions_left_out=left_out))
    assert told.replace("\n", " ") == sentence


def test_a_trainings_tokens_and_seconds_are_those_of_its_steps(run: Path) -> None:
    training = models.training_of(run)
    assert (training.tokens, training.seconds) == (8_000_000, 240.0)


def test_next_sentence_figures_stand_in_the_card_where_they_were_measured() -> None:
    held_out = ROW.held_out | {
        "evaluation_next_accuracy": 0.75,
        "evaluation_next_balanced_accuracy": 0.7,
        "evaluation_next_majority": 0.55,
    }
    row = replace(ROW, held_out=held_out)
    card = "\n".join(models.result_lines(row))
    assert "| next sentence | 75.0% (balanced 70.0%, majority label 55.0%) |" in card
