"""What the paper's text says around its experiments: tasks, sizes, sets, costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bertsmith.commands.reproduction.needs import Needs
from bertsmith.data.config import Masking
from bertsmith.model.config import BASE, BertConfig, sized
from bertsmith.model.sentence import SentenceConfig
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Joined, Pretrained, Score, exams_of
from bertsmith.recipes.experiments.scales import paper
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.recipes.run import Phase
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.planning import layer_weights


def test_the_eleven_tasks_are_those_of_tables_1_to_4() -> None:
    names = {
        name
        for number in range(1, 5)
        for _, _, cell in EXPERIMENTS[f"table{number}"](paper()).cells()
        for name in exams_of(cell)
    } - {"TriviaQA"}  # learned from, and not measured on
    assert len({name.split("-m")[0] for name in names}) == 11  # MNLI has two Dev sets


def test_base_is_as_large_as_openai_gpt_and_reads_about_30_000_word_pieces() -> None:
    # GPT: 12 layers, 768 states, 12 heads (Radford et al. 2018).
    assert (BASE.num_hidden_layers, BASE.hidden_size, BASE.num_attention_heads) == (12, 768, 12)
    gpt = paper().left_to_right().run.model
    assert replace(gpt, direction=BASE.direction) == BASE
    assert (paper().vocab_size, paper().cased_vocab_size) == (30_522, 28_996)


@pytest.mark.parametrize(
    ("config", "millions"), [(sized(6, 1024, 16), 75), (sized(64, 512, 2), 201)]
)
def test_weights_in_the_layers_of_larger_transformers_before(
    config: BertConfig, millions: int
) -> None:
    # Section 5.2 tells 100M and 235M, with embeddings that are not BERT's.
    assert round(layer_weights(config) / 1e6) == millions


def test_random_tokens_stand_at_one_and_a_half_of_a_hundred_places() -> None:
    masking = Masking()
    assert masking.rate * masking.random_share == pytest.approx(0.015)


def test_the_text_tells_the_sizes_of_squad_and_swag() -> None:
    squad, swag = EXAMS["SQuAD 1.1"], EXAMS["SWAG"]
    assert squad.num_train is not None
    assert swag.num_train is not None
    # "100k crowd-sourced question/answer pairs" and "113k sentence-pair completion examples", both
    # with test sets that are not here (about 9,500, and 20,005).
    assert round((squad.num_train + squad.num_dev + 9_533) / 1e5) == 1
    assert (swag.num_train + swag.num_dev + 20_005) // 1_000 == 113


def test_attention_costs_by_the_square_of_the_length() -> None:
    def flops(length: int, batch: int) -> float:
        phases = (Phase(steps=1, sequence_length=length, batch_size=batch),)
        run = replace(paper().base, phases=phases, warmup_steps=0)
        return pretraining_flops(run, vocab_size=30_522)

    short, long = flops(128, 256), flops(512, 64)  # as many tokens
    # Scores and contexts: forward, and twice as much back.
    attention = 3 * 12 * 4 * 768 * (256 * 128)
    assert long - short == pytest.approx(attention * (512 - 128))
    # A tenth of the steps at 512 costs a third of the whole.
    first, second = 900_000 * flops(128, 256), 100_000 * flops(512, 256)
    assert second / (first + second) == pytest.approx(0.33, abs=0.01)


def test_two_one_way_models_side_by_side_are_two_models_of_berts_size() -> None:
    (row,) = [
        row
        for row in EXPERIMENTS["contemporaries"](paper()).rows
        if row.title == "two Transformers side by side"
    ]
    cell = row.cells[-1]
    assert isinstance(cell, Score)
    assert isinstance(cell.model, Joined)
    sides = (cell.model.left_to_right, cell.model.right_to_left)
    assert {replace(side.run.model, direction=BASE.direction) for side in sides} == {BASE}
    table = EXPERIMENTS["contemporaries"](paper())
    one = replace(table, rows=(row,), claims=())
    assert len(Needs.of([one]).runs) == 2
    assert all(isinstance(model, Pretrained) for model in Needs.of([one]).runs.values())


def test_sentence_vectors_are_means_of_all_tokens_unless_asked() -> None:
    assert SentenceConfig().pooling == ("mean",)


def test_a_step_has_128_000_places() -> None:
    _, last = paper().base.phases
    assert last.batch_size * last.sequence_length == 131_072
