"""The pre-training runs that have names: what we chose, and why.

Each is a function without arguments, so that importing this file makes nothing. `bertsmith pretrain
FOLDER --recipe NAME` starts one; every field can be set beside it.

Source: Devlin et al. 2018, section 3.1 and appendix A.2; others beside their recipe.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bertsmith.data.config import Masking
from bertsmith.model.config import BASE, LARGE, MINI, TINY, BertConfig
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.train.config import OptimizerConfig


def paper_base() -> PretrainRun:
    """BASE as in the paper: 1M steps of 256 sequences, 900k of them at length 128.

    The paper took 4 days on 16 TPU chips for 3.3B words (about 40 epochs). It does not say that its
    masks were drawn once: the released code makes ten copies.

    Source: section 3.1, appendix A.2; google-research/bert.
    Command: `torchrun --nproc-per-node 8 -m bertsmith pretrain FOLDER --recipe paper-base`
    tiny: 46 s of what stands in its place; planned 0.7 GiB; perplexity 491.
    mini: 29 min of what stands in its place, beside other work; 2.3 GiB; perplexity 54.0.
    paper: planned 920 days on two cores; planned 4.9 GiB with `--accumulation 32`; not measured
        (the paper's: 3.99).
    """
    return PretrainRun(
        name="paper-base",
        model=BASE,
        masking=Masking(fixed_copies=10),
        record_every=10,
        loader_workers=4,
    )


def paper_large() -> PretrainRun:
    """LARGE as in the paper: the same schedule and data as BASE.

    Source: section 3.1, appendix A.2.
    Command: `torchrun --nproc-per-node 8 -m bertsmith pretrain FOLDER --recipe paper-large`
    tiny: 43 s of what stands in its place; planned 0.7 GiB; perplexity 521.
    mini: 126 min of what stands in its place, beside other work; 2.3 GiB; perplexity 54.4.
    paper: planned 3,140 days on two cores; planned 11 GiB with `--accumulation 32`; not measured
        (the paper's: 3.23).
    """
    return replace(paper_base(), name="paper-large", model=LARGE)


def mini_cpu() -> PretrainRun:
    """MINI for an ordinary computer: the paper's objectives and rules, sized for hours.

    Differs from the paper: a run of hours has thousands of steps, not a million, so every step must
    teach. Steps hold 4,096 tokens at ten times the rate, with a second moment that forgets sooner.
    The first half reads short sequences: among 16 tokens a position finds its neighbours at once,
    among 128 the loss rests for thousands of steps on a plateau half a nat below the unigram line
    (docs/log.md). Token embeddings begin as vectors counted from the text, worth half the steps.
    Where sequences grow, new positions begin as copies of those that know their neighbours (Beltagy
    et al. 2020, section 5). Initial weights are scaled so that sums over MINI's 256 inputs are as
    large as BASE's over 768. 30% of the positions are predicted: twice as many predictions a step,
    for a quarter more work (Wettig et al. 2022 on higher rates). No dropout, because such a run
    reads its text once or twice (Geiping and Goldstein 2022). Measurements: docs/log.md.
    `--minutes 60` fits the number of steps to the machine.

    Source: ours; what is not stands beside it.
    Command: `bertsmith pretrain FOLDER --recipe mini-cpu`
    Expected: 68 min for 3,400 of its steps on two cores of a Xeon in float32; 3.1 GB; perplexity
        69.8 on held-out documents (`mini-en`, docs/models.md).
    """
    return PretrainRun(
        name="mini-cpu",
        model=scaled(MINI),
        dropout=False,
        masking=Masking(rate=0.3),
        phases=(
            Phase(steps=2_500, sequence_length=16, batch_size=256),
            Phase(steps=2_500, sequence_length=32, batch_size=128),
            Phase(steps=2_000, sequence_length=64, batch_size=64),
            Phase(steps=3_000, sequence_length=128, batch_size=32),
        ),
        tile_positions=True,
        count_embeddings=True,
        optimizer=OptimizerConfig(learning_rate=1e-3, beta2=0.98),
        warmup_steps=500,
        evaluate_every=1_000,
        save_every=500,
        log_every=50,
    )


def quickstart() -> PretrainRun:
    """TINY for the few megabytes of English that Python carries, in minutes on two cores.

    Differs from the paper as `mini_cpu` does, with steps of 2,048 tokens.

    Source: ours, as `mini_cpu`.
    Command: `bertsmith quickstart`
    Expected: 4 min 41 s on two cores of a Xeon, fine-tuning included; not measured; perplexity 59.8
        on held-out documents.
    """
    return replace(
        mini_cpu(),
        name="quickstart",
        model=scaled(TINY),
        phases=(
            Phase(steps=1_600, sequence_length=16, batch_size=128),
            Phase(steps=1_200, sequence_length=32, batch_size=64),
            Phase(steps=1_200, sequence_length=64, batch_size=32),
        ),
        optimizer=OptimizerConfig(learning_rate=2e-3, beta2=0.98),
        warmup_steps=200,
        save_every=1_000,
        keep_checkpoints=1,
        log_every=200,
    )


def scaled(config: BertConfig) -> BertConfig:
    """The config with initial weights as large as its width wants.

    BASE's 0.02 makes sums over 768 inputs; a narrower model sums fewer, and its attention would
    begin too flat to learn from. 0.02 * sqrt(768 / H) keeps the size of the sums.
    """
    std = round(BASE.initializer_range * math.sqrt(BASE.hidden_size / config.hidden_size), 4)
    return replace(config, initializer_range=std)


def modern() -> PretrainRun:
    """BASE in about a day of one GPU: what later work found to be faster.

    Differs from the paper: no next-sentence objective and full single segments (Liu et al. 2019),
    20% masked for a fixed budget (Wettig et al. 2022: 15% is low), no dropout and one short
    schedule at length 128 with a high peak rate (Geiping and Goldstein 2022, one GPU for a day),
    AdamW with its bias correction and beta2 0.98 (Liu et al. 2019).
    Cut into 32 micro-batches of 16,384 tokens, a step needs the memory of a GPU of 24 GB; with more
    memory or several GPUs a smaller `--accumulation` is faster and changes nothing else.

    Source: ours; what is not stands beside it.
    Command: `bertsmith pretrain FOLDER --recipe modern`
    Expected: not measured; not measured; not measured.
    """
    return PretrainRun(
        name="modern",
        model=BASE,
        dropout=False,
        objectives=("masked_lm",),
        form="one_segment",
        short_probability=0.0,
        masking=Masking(rate=0.2),
        phases=(Phase(steps=60_000, sequence_length=128, batch_size=4_096),),
        optimizer=OptimizerConfig(name="adamw", learning_rate=1e-3, beta2=0.98),
        warmup_steps=3_000,
        evaluate_every=3_000,
        save_every=3_000,
        accumulation=32,
        log_every=20,
        loader_workers=4,
    )


def further() -> PretrainRun:
    """Going on from a model that is there (`--from MODEL`), whose sizes take the place of these.

    Differs from the paper, which begins with drawn weights: half its peak rate, so that what the
    model knows is not lost, and batches of 32 (both as Sun et al. 2019, "How to fine-tune BERT for
    text classification", pre-train BASE further); a warm-up of 5% of the steps, since the optimizer
    begins without a history. All else is the paper's: both objectives, 15% of the positions,
    dropout. Nothing is counted from the text and no position is copied: both would replace what
    the model has learned.
    `--minutes 60` fits the steps to the machine.

    Source: Sun et al. 2019, section 5.4.2; Devlin et al. 2018, appendix A.2.
    Command: `bertsmith pretrain FOLDER --from mini-en`
    Expected: as `--minutes` says; not measured; of `mini-en` on this project's own documents, a
        minute of one thread, held-out perplexity 59.5 before and 9.1 after.
    """
    return PretrainRun(
        name="further",
        # A place to be taken: how long sequences may be is for the model to say that comes here.
        model=replace(BASE, max_position_embeddings=2**16),
        phases=(Phase(steps=10_000, sequence_length=128, batch_size=32),),
        optimizer=OptimizerConfig(learning_rate=5e-5),
        warmup_steps=500,
        evaluate_every=1_000,
        save_every=500,
        log_every=50,
    )


def further_rate(config: BertConfig) -> float:
    """The peak rate for going on with a model of this width: `further`'s, times 768 / H.

    So a narrow model gets a sixth of what it bears from the start, as BASE does (`PEAK_RATES` in
    runs/planning.py fall with the width too).
    """
    return float(f"{further().optimizer.learning_rate * BASE.hidden_size / config.hidden_size:.2g}")


RECIPES = {
    "paper-base": paper_base,
    "paper-large": paper_large,
    "mini-cpu": mini_cpu,
    "quickstart": quickstart,
    "modern": modern,
    "further": further,
}
