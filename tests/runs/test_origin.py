"""What a run tells for its model's card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.checkpoints import store
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import Phase
from bertsmith.runs.directory import Record, checkpoint_path, fingerprint, write_record
from bertsmith.runs.origin import origin_of, run_of
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer
from tests.data.corpora import write_corpus

EVALUATED = {
    "evaluation_loss": 4.2451, "evaluation_perplexity": 69.81, "evaluation_accuracy": 0.328,
    "evaluation_next_accuracy": 0.893, "evaluation_next_balanced_accuracy": 0.894,
    "evaluation_next_majority": 0.548,
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    corpus = write_corpus(tmp_path / "texts", {"train": [[[5, 6, 7]]], "held_out": []})
    write_record(
        tmp_path / "run",
        Record(
            run=replace(mini_cpu(), phases=(Phase(steps=40, batch_size=8),), warmup_steps=4),
            corpus=corpus,
            corpus_fingerprint=fingerprint(corpus),
            command="bertsmith pretrain texts --minutes 1",
            request={},
            notes=(),
            seconds_per_step=(0.1,),
            peak_bytes=1,
            unigram_entropy=6.5,
            versions={"python": "3.11.7", "bertsmith": "0.1.0"},
        ),
    )
    rows = [{"step": step, "tokens": 50_000, "seconds": 3.0} for step in range(1, 41)]
    rows += [{"step": 20, "evaluation_loss": 9.0}, {"step": 40, **EVALUATED}]
    rows.sort(key=lambda row: row["step"])
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in (20, 30, 40):
        place = checkpoint_path(tmp_path / "run", step)
        store.save(place, tiny_model(), CONFIG, tiny_tokenizer())
    return tmp_path / "run"


def test_the_last_checkpoint_has_the_runs_figures_recipe_and_data(run: Path) -> None:
    origin, language = origin_of(checkpoint_path(run, 40))
    assert origin is not None
    assert language is None
    assert origin.results == (
        ("loss", "4.245 nats"), ("perplexity", "69.81"), ("accuracy", "32.8%"),
        ("next sentence", "89.3%"), ("next sentence, balanced", "89.4%"),
        ("next sentence, majority label", "54.8%"),
    )  # fmt: skip
    command, steps, optimizer, versions = origin.recipe
    assert command == "`bertsmith pretrain texts --minutes 1`"
    assert steps.startswith("40 steps: 40 of 8 sequences of at most 128 tokens, 2.0M tokens in 2")
    assert "peak learning rate" in optimizer
    assert versions == "python 3.11.7, bertsmith 0.1.0"
    assert origin.data[0].startswith("corpus `texts`, fingerprint `")
    assert any("unigram entropy 6.500" in line for line in origin.data)


def test_an_earlier_checkpoint_has_its_own_step_and_figures(run: Path) -> None:
    origin, _ = origin_of(checkpoint_path(run, 20))
    assert origin is not None
    assert origin.results == (("loss", "9.000 nats"),)
    assert origin.recipe[1].startswith("20 of 40 steps")
    assert "1.0M tokens in 60 s" in origin.recipe[1]
    unevaluated, _ = origin_of(checkpoint_path(run, 30))
    assert unevaluated is not None
    assert unevaluated.results == ()


def test_a_corpus_that_is_gone_or_speaks_a_language(run: Path) -> None:
    manifest = run.parent / "texts" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "settings": {"language": "ko"}}))
    assert origin_of(checkpoint_path(run, 40))[1] == "ko"
    manifest.unlink()
    origin, language = origin_of(checkpoint_path(run, 40))
    assert origin is not None
    assert language is None
    assert len(origin.data) == 2


def test_a_model_outside_a_run_tells_nothing(tmp_path: Path) -> None:
    store.save(tmp_path / "m", tiny_model(), CONFIG, tiny_tokenizer())
    assert run_of(tmp_path / "m") is None
    assert origin_of(tmp_path / "m") == (None, None)


def test_a_copy_beside_the_checkpoints_is_no_step_of_the_run(run: Path) -> None:
    copy = run / "checkpoints/step-20-copy"
    store.save(copy, tiny_model(), CONFIG, tiny_tokenizer())
    assert run_of(copy) is None
    assert origin_of(copy) == (None, None)
