"""The arithmetic that chooses size and steps, and the plan in words."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from bertsmith.commands import decision
from bertsmith.commands.decision import with_size
from bertsmith.commands.preparation import corpus_of, vocabulary_size
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.corpus.store import Corpus
from bertsmith.model.bert import Bert
from bertsmith.model.config import BASE, LARGE, MINI, SIZES, TINY, Objective
from bertsmith.recipes.pretraining import mini_cpu, paper_base, scaled
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs import planning
from bertsmith.runs.measuring import Bench, Measurement
from bertsmith.runs.planning import choose_size, fitted, layer_weights
from bertsmith.train.device import ALONE
from tests.commands.small_run import write_text

PLENTY = 10**12


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """200 documents of six sentences."""
    folder = tmp_path_factory.mktemp("planning")
    text = write_text(folder / "text", num_documents=200)
    choices = TextChoices(vocab_size=200, held_out=0.1, reading=ReadingChoices(workers=1))
    return Corpus.open(corpus_of([text], choices, folder, Console(quiet=True)))


def measured(seconds: float, phases: int = 1) -> Measurement:
    return Measurement(
        seconds_per_step=(seconds,) * phases, tokens_per_second=1e4, peak_bytes=2**30
    )


@pytest.mark.parametrize(
    ("tokens_per_second", "hours", "expected"),
    [
        (17_000, 0.05, "tiny"),  # minutes on two cores
        (20_000, 1, "mini"),  # an hour on two cores
        (20_000, 24, "small"),  # a day on two cores
        (20_000_000, 24, "large"),  # a day of a GPU
    ],
)
def test_size_grows_with_the_time(tokens_per_second: float, hours: float, expected: str) -> None:
    assert choose_size(tokens_per_second, "mini", hours * 3600, PLENTY) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"), [(50_000, "tiny"), (2_000_000, "mini"), (10_000_000, "small")]
)
def test_size_is_bounded_by_forty_epochs_of_the_text(tokens: int, expected: str) -> None:
    assert choose_size(1e9, "mini", 1e9, tokens) == expected


@pytest.mark.parametrize("name", SIZES)
def test_the_chosen_size_sees_twenty_tokens_a_weight(name: str) -> None:
    enough = planning.TOKENS_A_WEIGHT * layer_weights(SIZES[name])
    chosen = choose_size(enough + 1.0, name, 1.0, PLENTY)
    assert layer_weights(SIZES[chosen]) >= layer_weights(SIZES[name])


def test_an_lstm_has_three_times_the_weights_and_is_chosen_smaller() -> None:
    lstm = replace(BASE, layer_kind="lstm", direction="left_to_right")
    enough = planning.TOKENS_A_WEIGHT * layer_weights(SIZES["small"])
    assert choose_size(enough + 1.0, "small", 1.0, PLENTY) == "small"
    assert choose_size(enough + 1.0, "small", 1.0, PLENTY, lstm) == "mini"


def test_layer_weights_are_twelve_squares_a_layer_and_those_of_an_lstm_its_matrices() -> None:
    assert layer_weights(BASE) == 12 * 12 * 768 * 768
    lstm = replace(MINI, layer_kind="lstm", direction="left_to_right")
    layers = Bert(lstm, with_pooler=False).layers
    assert layer_weights(lstm) == sum(each.numel() for each in layers.parameters() if each.ndim > 1)


def test_steps_fill_the_time_and_leave_a_share_for_the_rest(corpus: Corpus) -> None:
    run = fitted(mini_cpu(), measured(10.0, phases=4), 1_000.0, corpus)
    assert run.num_steps == 95
    assert run.warmup_steps == round(95 * 500 / 10_000)


def test_steps_stop_at_forty_epochs(corpus: Corpus) -> None:
    run = replace(mini_cpu(), phases=(Phase(steps=1_000, sequence_length=32, batch_size=32),))
    run = replace(run, warmup_steps=10)
    longest = fitted(run, measured(0.001), 19.0, corpus)
    rows = planning.plan_of(run, 0, corpus).rows_per_epoch
    assert longest.num_steps == int(planning.MOST_EPOCHS * rows / 32)


def test_the_batch_grows_beyond_the_most_steps(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = fitted(mini_cpu(), measured(0.001, phases=4), 100.0, corpus)
    assert [p.batch_size for p in free.phases] == [p.batch_size for p in mini_cpu().phases]
    monkeypatch.setattr(planning, "MOST_STEPS", free.num_steps // 3)
    run = fitted(mini_cpu(), measured(0.001, phases=4), 100.0, corpus)
    growth = [p.batch_size / f.batch_size for p, f in zip(run.phases, free.phases, strict=True)]
    assert growth == [4.0] * 4
    assert run.num_steps == free.num_steps // 4


def test_more_time_never_gives_fewer_steps_than_the_epochs_allow(corpus: Corpus) -> None:
    steps = [
        fitted(mini_cpu(), measured(0.001, phases=4), seconds, corpus).num_steps
        for seconds in (0.1, 0.5, 1.0, 100.0, 10_000.0)
    ]
    assert steps == sorted(steps)
    assert steps[-1] == steps[-2]


def test_two_phases_keep_their_shares(corpus: Corpus) -> None:
    run = fitted(paper_base(), measured(1.0, phases=2), 200.0, corpus)
    assert [phase.steps for phase in run.phases] == [171, 19]


def test_a_named_size_changes_the_layers_and_nothing_else() -> None:
    run = with_size(replace(mini_cpu(), model=replace(MINI, vocab_size=777)), "tiny", ())
    assert run == replace(mini_cpu(), model=replace(TINY, vocab_size=777))


def test_a_size_brings_its_peak_rate_and_initial_weights_where_it_may() -> None:
    run = with_size(mini_cpu(), "large", ("learning_rate", "initializer_range"))
    assert run.optimizer == replace(mini_cpu().optimizer, learning_rate=2e-4)
    assert run.model == scaled(LARGE)


def test_the_plan_names_every_phase_and_the_whole_schedule(corpus: Corpus) -> None:
    bench = Bench(corpus=corpus, device=torch.device("cpu"), processes=ALONE)
    lines = dict(planning.described(paper_base(), bench, measured(0.5, phases=2)))
    assert "110,106,428 parameters" in lines["model"]
    assert lines["phase 1"].startswith("900,000 steps of 256 sequences of at most 128 tokens")
    assert lines["phase 2"].startswith("100,000 steps of 256 sequences of at most 512 tokens")
    assert "0 -> 0.0001 over 10,000 steps, then linear to 0 at step 1,000,000" in lines["schedule"]
    assert lines["expected"].startswith("5 d 18 h")
    assert f"{corpus.unigram_entropy:.3f}" in lines["unigram line"]
    assert "tokens/s (measured)" in lines["expected"]
    rough = replace(measured(0.5, phases=2), is_rough=True)
    assert "a rough rate" in dict(planning.described(paper_base(), bench, rough))["expected"]


def test_little_text_and_many_epochs_are_warned_of(corpus: Corpus) -> None:
    found = " ".join(planning.warnings(mini_cpu(), corpus))
    assert f"only {corpus.num_tokens:,} tokens" in found
    assert "reads the text" in found


@pytest.mark.parametrize(
    ("steps", "warmup_steps", "warned"),
    [
        (99, 5, "99 steps are too few to learn more than frequent words: give it at least 100"),
        (20, 0, "20 steps are too few"),
        (1_000, 0, "(--warmup-steps 50)"),
        (1_000, 1, ""),
        (100, 5, ""),
    ],
)
def test_a_run_that_can_learn_nothing_is_warned_of(
    corpus: Corpus, steps: int, warmup_steps: int, warned: str
) -> None:
    phases = (Phase(steps=steps, sequence_length=16, batch_size=1),)
    run = replace(mini_cpu(), phases=phases, warmup_steps=warmup_steps)
    about = [each for each in planning.warnings(run, corpus) if "give it" in each]
    assert len(about) == bool(warned)
    assert warned in "".join(about)


@pytest.mark.parametrize(
    ("minutes", "spent", "told"),
    [(None, 9e9, None), (2.0, 120.0, None),
     (0.5, 45.0, "the 0.5 minutes asked for are over before the first step: 45 s are spent, 40 s")],
)  # fmt: skip
def test_minutes_that_are_over_before_the_first_step_are_warned_of(
    minutes: float | None, spent: float, told: str | None
) -> None:
    found = planning.late_warning(minutes, spent, 40.0)
    assert found == told or (found is not None and told is not None and found.startswith(told))


@pytest.mark.parametrize(
    ("objectives", "num_held_out", "warned"),
    [
        (("masked_lm", "next_sentence"), 0, "no held-out figures"),
        (("masked_lm", "next_sentence"), 1, "next_sentence is not evaluated"),
        (("masked_lm", "next_sentence"), 2, ""),
        (("masked_lm",), 1, ""),
        (("masked_lm",), 0, "no held-out figures"),
    ],
)
def test_too_few_held_out_documents_are_warned_of(
    corpus: Corpus, objectives: tuple[Objective, ...], num_held_out: int, warned: str
) -> None:
    report = replace(corpus.manifest.report, held_out_documents=num_held_out)
    few = replace(corpus, manifest=replace(corpus.manifest, report=report))
    found = planning.warnings(replace(mini_cpu(), objectives=objectives), few)
    about = [each for each in found if "held out" in each]
    assert len(about) == bool(warned)
    assert warned in "".join(about)


@pytest.mark.parametrize(
    ("rates", "believed"),
    [
        ((3_000, 20_000, 22_000, 1), 22_000),  # a busy moment at the start
        ((20_000, 21_000, 1), 21_000),
        ((20_000, 3_000, 4_500, 4_000, 1), 4_000),  # busy from then on
    ],
)
def test_a_rate_is_believed_when_two_in_a_row_agree(rates: tuple[int, ...], believed: int) -> None:
    coming = (replace(measured(1.0), tokens_per_second=rate) for rate in rates)
    found = decision.settled(mini_cpu(), lambda _: next(coming), 60.0)
    assert found.tokens_per_second == believed


@pytest.mark.parametrize(("minutes", "seconds"), [(None, math.inf), (1.0, 6.0), (60.0, 360.0)])
def test_measuring_is_seen_and_takes_a_tenth_of_the_minutes_at_most(
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
    minutes: float | None,
    seconds: float,
) -> None:
    def measure(
        run: PretrainRun, bench: Bench, until: float, on_step: Callable[[int], None]
    ) -> Measurement:
        assert until == 1000.0 + seconds
        on_step(6)
        return measured(1.0)

    monkeypatch.setattr(decision, "measure", measure)
    monkeypatch.setattr(decision, "time", SimpleNamespace(perf_counter=lambda: 1000.0))
    bench = Bench(corpus=corpus, device=torch.device("cpu"), processes=ALONE)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    decision._measuring(bench, minutes, console)(mini_cpu())
    assert "measuring: 25% (6/24 steps)" in file.getvalue()


def test_a_measurement_that_took_its_share_of_the_time_is_not_repeated() -> None:
    coming = iter([measured(1.0)])
    assert decision.settled(mini_cpu(), lambda _: next(coming), 0.0) == measured(1.0)


@pytest.mark.parametrize(
    ("megabytes", "entries", "entries_at_least_8000"),
    [
        (0.5, 2_000, 8_000),
        (3, 4_000, 8_000),
        (12, 8_000, 8_000),
        (60, 16_000, 16_000),
        (311, 30_522, 30_522),
    ],
)
def test_the_vocabulary_grows_with_the_text(
    megabytes: float, entries: int, entries_at_least_8000: int
) -> None:
    size = int(megabytes * 1e6)
    assert vocabulary_size(size, 0) == entries
    assert vocabulary_size(size, 8_000) == entries_at_least_8000
