"""Measuring: what real steps cost, within the time there is for it."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.corpus.store import Corpus
from bertsmith.fusion import unfused
from bertsmith.model.config import BertConfig
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs import measuring
from bertsmith.runs.measuring import Bench, measure, num_steps_to_measure
from bertsmith.train.device import ALONE
from tests.commands.small_run import write_text


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("measuring")
    text = write_text(folder / "text", num_documents=200)
    choices = TextChoices(vocab_size=200, held_out=0.1, reading=ReadingChoices(workers=1))
    corpus = Corpus.open(corpus_of([text], choices, folder, Console(quiet=True)))
    return Bench(corpus=corpus, device=torch.device("cpu"), processes=ALONE)


@pytest.fixture
def run(bench: Bench) -> PretrainRun:
    return PretrainRun(
        model=BertConfig(
            vocab_size=bench.corpus.manifest.vocab_size,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        ),
        phases=(
            Phase(steps=1_000, sequence_length=16, batch_size=8),
            Phase(steps=3_000, sequence_length=32, batch_size=4),
        ),
        warmup_steps=10,
    )


def test_measured_seconds_and_rate_tell_of_the_same_run(bench: Bench, run: PretrainRun) -> None:
    heard: list[int] = []
    with unfused():
        found = measure(run, bench, math.inf, heard.append)
    seconds = sum(
        phase.steps * step for phase, step in zip(run.phases, found.seconds_per_step, strict=True)
    )
    # Sequences reach their full lengths but for the one in ten that is drawn shorter.
    assert 4_000 * 100 < found.tokens_per_second * seconds <= 4_000 * 128
    assert found.peak_bytes > 2**20
    assert not found.is_rough
    assert heard == list(range(1, num_steps_to_measure(run) + 1))


def test_counting_first_vectors_is_part_of_the_memory(
    bench: Bench, run: PretrainRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "counting_bytes", lambda corpus, width: 1 << 40)
    with unfused():
        plain, counted = (
            measure(replace(run, count_embeddings=each), bench, time.perf_counter())
            for each in (False, True)
        )
    assert plain.peak_bytes < 1 << 40 < counted.peak_bytes


def test_no_phase_is_begun_when_the_time_is_over_and_the_rate_is_called_rough(
    bench: Bench, run: PretrainRun
) -> None:
    heard: list[int] = []
    with unfused():
        found = measure(run, bench, time.perf_counter(), heard.append)
    assert heard == [1, 2]
    assert found.is_rough
    first, second = found.seconds_per_step
    # 8 sequences of 16 tokens are about as many as 4 of 32.
    assert second == pytest.approx(first, rel=0.3)
