"""A pre-training run -> the same with one thing changed: the variants that the paper compares.

Everything else stays as it is: corpus, tokens, steps, batches, seed.

Source: Devlin et al. 2018, sections 5.1 and 5.2, appendix C.2; Peters et al. 2018 (ELMo).
"""

from __future__ import annotations

from dataclasses import replace

from bertsmith.model.config import BertConfig, Direction, Objective
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.recipes.run import PretrainRun

_ONE_WAY: dict[Direction, Objective] = {
    "left_to_right": "left_to_right_lm",
    "right_to_left": "right_to_left_lm",
}

TABLE_8: tuple[tuple[float, float, float], ...] = (
    (0.8, 0.1, 0.1),
    (1.0, 0.0, 0.0),
    (0.8, 0.0, 0.2),
    (0.8, 0.2, 0.0),
    (0.0, 0.2, 0.8),
    (0.0, 0.0, 1.0),
)
"""Shares of `[MASK]`, of unchanged and of random tokens, as the paper's rows have them."""


def no_nsp(run: PretrainRun) -> PretrainRun:
    """Masked LM alone, on the very same sequences.

    The paper does not say what a sequence holds then. Here pairs are drawn as before, so that the
    objective is all that differs.

    Source: section 5.1, Table 5.
    Command: `bertsmith reproduce table5 --scale SCALE --text TEXT --data DATA`
    tiny: not measured; planned 0.7 GiB; QNLI 52.3, SQuAD F1 8.2 (with NSP 50.0 and 8.0).
    mini: 62 min, of one thread beside another; planned 1.5 GiB; MNLI 45.9, QNLI 56.0 (with NSP
        47.4 and 56.8).
    paper: planned 920 days on two cores (several GPUs: README.md); planned 4.9 GiB with
        `--accumulation 32`; not measured (the paper's: QNLI 84.9).
    """
    return replace(run, name=f"{run.name}-no-nsp", objectives=("masked_lm",))


def one_way(run: PretrainRun, direction: Direction) -> PretrainRun:
    """A language model in one direction without NSP: Table 5's "LTR & No NSP", GPT's side.

    It reads the same sequences, special tokens and segments included ("our input representation"),
    and predicts each next token where the masked one predicts 15%.

    Source: section 5.1, Table 5; Figure 3.
    Command: `bertsmith reproduce table5 --scale SCALE --text TEXT --data DATA`
    tiny: not measured; planned 0.7 GiB; QNLI 51.2, SST-2 58.9 (both ways 50.0 and 52.7).
    mini: 43 min, beside other work; planned 1.5 GiB; MNLI 45.5, SST-2 80.0 (both ways 47.4 and
        79.5).
    paper: planned 1,120 days on two cores (several GPUs: README.md); planned 4.9 GiB with
        `--accumulation 32`; not measured (the paper's: QNLI 84.3).
    """
    short = "".join(word[0] for word in direction.split("_"))
    return replace(
        run,
        name=f"{run.name}-{short}",
        model=replace(run.model, direction=direction),
        objectives=(_ONE_WAY[direction],),
    )


def lstm(run: PretrainRun, direction: Direction) -> PretrainRun:
    """One direction of ELMo: two layers of an LSTM, with as many cells as a feed-forward is wide.

    Differs from ELMo: WordPiece tokens in place of a network over characters, and nothing is shared
    between the directions.

    Source: Figure 3; Peters et al. 2018.
    Command: `bertsmith reproduce contemporaries --scale SCALE --text TEXT --data DATA`
    tiny: 12 s for the cell of both directions, the time of their pre-trainings not kept; planned
        0.6 GiB; NER features 0.0 of both directions.
    mini: 42 min, of one thread beside another; planned 1.1 GiB; NER features 81.3 of both
        directions.
    paper: planned 2,330 days on two cores (several GPUs: README.md); planned 3.1 GiB with
        `--accumulation 32`; not measured (the paper's ELMo: NER 95.7).
    """
    begun = one_way(run, direction)
    model = replace(begun.model, layer_kind="lstm", num_hidden_layers=2)
    return replace(begun, name=f"{begun.name}-lstm", model=model)


def resized(run: PretrainRun, config: BertConfig) -> PretrainRun:
    """Another size, with the initial weights that the config has for it.

    Source: section 5.2, Table 6.
    Command: `bertsmith reproduce table6 --scale SCALE --text TEXT --data DATA`
    tiny: 43 to 121 s; planned 0.7 GiB; perplexity 492 to 474 of the first five sizes, 521 of the
        largest.
    mini: 3 to 126 min, beside other work; 2.3 GiB; perplexity 63.8 to 47.5 of the first five sizes,
        54.4 of the largest.
    paper: planned 7,020 days on two cores for all six (several GPUs: README.md); planned 11 GiB
        with `--accumulation 32`; not measured (the paper's: 5.84 to 3.23).
    """
    model = replace(run.model.shaped(config), initializer_range=config.initializer_range)
    size = f"L{config.num_hidden_layers}-H{config.hidden_size}-A{config.num_attention_heads}"
    return replace(run, name=f"{run.name}-{size}", model=model)


def masked(run: PretrainRun, shares: tuple[float, float, float]) -> PretrainRun:
    """Another row of Table 8: shares of `[MASK]`, unchanged, random.

    Source: appendix C.2, Table 8.
    Command: `bertsmith reproduce table8 --scale SCALE --text TEXT --data DATA`
    tiny: 46 s of the paper's mixture, of the others not kept; planned 0.7 GiB; NER 10.9, 0.0, 0.0,
        12.6, 12.2 and 0.0 from the first row on, 0.0 from features, guessing on MNLI.
    mini: 19 min, of one thread beside another; 2.9 GiB; NER from features 68.7 to 75.5.
    paper: planned 920 days on two cores (several GPUs: README.md); planned 4.9 GiB with
        `--accumulation 32`; not measured (the paper's: MNLI 83.6 to 84.4).
    """
    mask, same, random = shares
    if shares == TABLE_8[0]:
        return run
    masking = replace(run.masking, mask_share=mask, random_share=random)
    name = f"{run.name}-mask{mask:.0%}-same{same:.0%}-random{random:.0%}".replace("%", "")
    return replace(run, name=name, masking=masking)


def with_bilstm(run: FinetuneRun, size: int) -> FinetuneRun:
    """Table 5's "+ BiLSTM": drawn at random on top, trained in fine-tuning.

    Source: section 5.1, Table 5.
    Command: `bertsmith reproduce table5 --scale SCALE --text TEXT --data DATA`
    tiny: 4 to 28 s a run of 1,000 examples; planned 0.6 GiB, 1.5 with all of SQuAD read; QNLI 52.8,
        SST-2 55.1.
    mini: 11 to 17 min a set, SQuAD 50 min, of one thread beside another; planned 0.7 GiB, 1.4 with
        all of SQuAD read; QNLI 56.7, SQuAD's F1 11.9.
    paper: planned 41 min (MRPC) to 54 h (SQuAD) a run on two cores; planned 4.2 GiB; not measured
        (the paper's: QNLI 84.1, SQuAD F1 84.9).
    """
    return replace(run, name=f"{run.name}-bilstm", on_top="bilstm", lstm_size=size)
