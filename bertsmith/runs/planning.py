"""Text, minutes and a measured rate -> the model's size, the number of steps, and the printed plan.

Three rules, each one line of arithmetic, so that a person can foresee and overrule them:
- Size: the largest whose layers see at least 20 tokens a weight within the time, from at most 40
  epochs. In an hour that is MINI from 17,500 tokens a second on, and TINY below.
- Steps: as many as fit into 95% of the time left at the measured rate, and at most 40 epochs, the
  paper's own number, or 200 steps where these are more. Beyond 20,000 steps the batch grows
  instead, up to 4,096 sequences.
- Expected time and memory: those of real steps of the chosen model (`measuring.py`), not estimated.

It does not train: `pretrain` does.

Source: 20 tokens a weight: Hoffmann et al. 2022; 40 epochs: Devlin et al. 2018, appendix A.2.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from bertsmith.corpus.store import Corpus
from bertsmith.model.config import BASE, SIZES, BertConfig
from bertsmith.model.objectives import PretrainModel
from bertsmith.reading.counted import counted
from bertsmith.recipes.run import PretrainRun, stretched
from bertsmith.runs.measuring import Bench, Measurement
from bertsmith.runs.progress import duration
from bertsmith.runs.training import plan_of

TOKENS_A_WEIGHT = 20
MOST_EPOCHS = 40
MOST_STEPS = 20_000
LARGEST_BATCH = 4_096
FEWEST_STEPS = 200
FEWEST_TOKENS = 1_000_000
FEWEST_UPDATES = 100
"""Below it nothing is learned but how frequent tokens are."""

PEAK_RATES = {
    "tiny": 2e-3, "mini": 1e-3, "small": 7e-4, "medium": 5e-4, "base": 3e-4, "large": 2e-4,
}  # fmt: skip
"""Peak learning rates for short runs: smaller models bear larger ones (paper: 1e-4)."""

_SHARE_FOR_THE_REST = 0.05  # of the minutes: evaluations, checkpoints, samples


def choose_size(
    tokens_per_second: float,
    measured: str,
    seconds: float,
    tokens: int,
    kind: BertConfig = BASE,
) -> str:
    """The largest size that is worth training; the smallest when none is.

    `measured` names the size that reached `tokens_per_second`; other sizes are expected to run
    slower or faster by their work a token. `tokens` is the corpus; `kind` has the layers to train.
    """
    sizes = {
        name: replace(config, layer_kind=kind.layer_kind, direction=kind.direction)
        for name, config in SIZES.items()
    }
    chosen = min(sizes, key=lambda name: layer_weights(sizes[name]))
    for name, config in sizes.items():
        rate = tokens_per_second * _work(sizes[measured]) / _work(config)
        seen = min(rate * seconds, MOST_EPOCHS * tokens)
        if seen >= TOKENS_A_WEIGHT * layer_weights(config):
            chosen = max(chosen, name, key=lambda size: layer_weights(sizes[size]))
    return chosen


def fitted(
    run: PretrainRun,
    measurement: Measurement,
    seconds: float,
    corpus: Corpus,
    kept: Collection[str] = frozenset(),
) -> PretrainRun:
    """The run stretched or shortened to the seconds at hand and to at most 40 epochs or 200 steps.

    A run that would have more than 20,000 steps within both gets larger batches instead. `kept`: as
    for `stretched`.
    """
    seconds *= 1.0 - _SHARE_FOR_THE_REST
    shares = [phase.steps / run.num_steps for phase in run.phases]
    costs = measurement.seconds_per_step
    epochs_a_step = sum(
        share * phase.batch_size / plan_of(run, number, corpus).rows_per_epoch
        for number, (share, phase) in enumerate(zip(shares, run.phases, strict=True))
    )
    steps = min(
        seconds / sum(share * cost for share, cost in zip(shares, costs, strict=True)),
        max(FEWEST_STEPS, MOST_EPOCHS / epochs_a_step),
    )
    growth, largest = 1, max(phase.batch_size for phase in run.phases)
    while steps > MOST_STEPS and 2 * growth * largest <= LARGEST_BATCH:
        steps, growth = steps / 2, growth * 2
    run = replace(
        run,
        phases=tuple(replace(p, batch_size=p.batch_size * growth) for p in run.phases),
    )
    return stretched(run, max(2 * len(run.phases), int(steps)), kept)


def described(run: PretrainRun, bench: Bench, measurement: Measurement) -> list[tuple[str, str]]:
    """The plan, line by line: (what, value)."""
    model, corpus, tokens = run.model, bench.corpus, bench.corpus.num_tokens
    lines = [
        ("model", f"{_size_name(model)}: {model.num_hidden_layers} layers of {model.hidden_size}, "
                  f"{_inside(model)}, vocabulary {model.vocab_size:,}, "
                  f"{num_parameters(run):,} parameters"),
        ("text", f"{corpus.num_documents:,} documents, {corpus.num_sentences:,} sentences, "
                 f"{tokens:,} tokens"),
        ("objectives", f"{', '.join(run.objectives)} on {run.form}, {_predicted(run)}"),
    ]  # fmt: skip
    total, with_next = 0.0, "next_sentence" in run.objectives
    for number, phase in enumerate(run.phases):
        plan = plan_of(run, number, corpus)
        described = plan.describe()
        length = described.tokens_per_sequence
        trained = phase.steps * phase.batch_size * length
        total += phase.steps * measurement.seconds_per_step[number]
        lines.append((
            f"phase {number + 1}",
            f"{phase.steps:,} steps of {phase.batch_size} sequences of at most "
            f"{phase.sequence_length} tokens (mean {length:.0f}): {trained / 1e6:,.1f}M tokens, "
            f"{plan.epochs(phase.steps):.1f} epochs"
            + (f", {described.random_share:.0%} of B random" if with_next else ""),
        ))  # fmt: skip
    peak = run.optimizer.learning_rate
    return [
        *lines,
        ("schedule", f"{run.optimizer.name}: 0 -> {peak:g} over {run.warmup_steps:,} steps, then "
                     f"linear to 0 at step {run.num_steps:,}"),
        ("machine", bench.describe(run)),
        ("expected", f"{duration(total)} at {measurement.tokens_per_second:,.0f} tokens/s "
                     f"({measurement.worth()}), "
                     f"{measurement.peak_bytes / 2**30:.1f} GiB of memory"),
        ("unigram line", f"{corpus.unigram_entropy:.3f} nats: the loss of knowing only how "
                         f"frequent each token is"),
    ]  # fmt: skip


def warnings(run: PretrainRun, corpus: Corpus, *, is_drawn: bool = True) -> list[str]:
    """What a person should know before the start, a sentence each.

    `is_drawn` says that the weights are drawn: a model that is gone on from knows frequent words.
    """
    found: list[str] = []
    num_held_out = corpus.manifest.report.held_out_documents
    advice = "raise --held-out, or cut the text into more documents"
    if num_held_out == 0:
        found.append(f"no document is held out: there will be no held-out figures; {advice}")
    elif num_held_out == 1 and "next_sentence" in run.objectives:
        found.append(
            f"one document is held out, and a random B comes from another: next_sentence is not "
            f"evaluated, the language model is; {advice}"
        )
    if is_drawn and corpus.num_tokens < FEWEST_TOKENS:
        found.append(
            f"the text has only {corpus.num_tokens:,} tokens; below about {FEWEST_TOKENS:,} a "
            f"model learns little more than frequent words: add text if you can"
        )
    if is_drawn and run.num_steps < FEWEST_UPDATES:
        found.append(
            f"{run.num_steps:,} steps are too few to learn more than frequent words: give it at "
            f"least {FEWEST_UPDATES} (--steps), more --minutes, or a smaller --size"
        )
    elif run.warmup_steps == 0:
        found.append(
            f"without warm-up the first steps take the whole peak rate "
            f"({run.optimizer.learning_rate:g}), and a run may never recover: give it some "
            f"(--warmup-steps {max(1, run.num_steps // 20):,})"
        )
    for number, phase in enumerate(run.phases):
        plan = plan_of(run, number, corpus)
        found += plan.describe().warnings
        if plan.epochs(phase.steps) > MOST_EPOCHS + 1:
            found.append(
                f"phase {number + 1} reads the text {plan.epochs(phase.steps):.0f} times; beyond "
                f"{MOST_EPOCHS} times little is gained: train for fewer steps or add text"
            )
    return list(dict.fromkeys(found))


def late_warning(
    minutes: float | None, spent: float, measuring: float, *, is_drawn: bool = True
) -> str | None:
    """What to say where the minutes were over before the start; `spent` holds the measuring."""
    if minutes is None or spent <= 60.0 * minutes:
        return None
    over = f"{counted(minutes, 'minute')} asked for {'is' if minutes == 1 else 'are'} over"
    return (
        f"the {over} before the first step: {duration(spent)} are spent, {duration(measuring)} of "
        f"them on measuring. Give more --minutes, or name "
        f"{'--size and ' if is_drawn else ''}--steps"
    )


def layer_weights(config: BertConfig) -> int:
    """Matrix weights of the layers: what the tokens are spread over; embeddings not counted."""
    hidden, wide = config.hidden_size, config.intermediate_size
    if config.layer_kind == "lstm":
        return config.num_hidden_layers * 9 * hidden * wide
    return config.num_hidden_layers * (4 * hidden * hidden + 2 * hidden * wide)


def num_parameters(run: PretrainRun) -> int:
    """Trainable parameters, heads included, without building the model."""
    with torch.device("meta"):
        model = PretrainModel(run.model, run.objectives)
    return sum(parameter.numel() for parameter in model.parameters())


def _work(config: BertConfig) -> float:
    """Multiplications a token: layers, and the masked-LM head on 15% of the positions."""
    head = 0.15 * config.hidden_size * (config.hidden_size + 30_522)
    return layer_weights(config) + head


def _inside(config: BertConfig) -> str:
    """What a layer consists of."""
    if config.layer_kind == "lstm":
        return f"an LSTM of {config.intermediate_size:,} cells each"
    return f"{config.num_attention_heads} heads"


def _predicted(run: PretrainRun) -> str:
    """Which tokens the language model is asked for."""
    if "masked_lm" in run.objectives:
        return f"{run.masking.rate:.0%} of positions predicted"
    return "every token predicted from those on one side of it"


def _size_name(config: BertConfig) -> str:
    shapes = {(size.num_hidden_layers, size.hidden_size): name for name, size in SIZES.items()}
    return shapes.get((config.num_hidden_layers, config.hidden_size), "own size")
