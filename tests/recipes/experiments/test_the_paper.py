"""The figures of the paper's tables bear out what its text says of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bertsmith.recipes.experiments.the_paper import (
    CONTEMPORARIES,
    GLUE,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    Figures,
)

TEST_F1 = 3
"""The column of Tables 2 and 3."""


def less(one: Figures, other: Figures, column: int) -> float:
    first, second = one[column], other[column]
    assert first is not None
    assert second is not None
    return first - second


GPT, BASE, LARGE = (TABLE_1[name] for name in ("OpenAI GPT", "BERT BASE", "BERT LARGE"))
ONE, ENSEMBLE = (TABLE_2[f"BERT LARGE ({name} + TriviaQA)"] for name in ("single", "ensemble"))
NEXT, LEFT, LSTM = (TABLE_5[name] for name in ("No NSP", "LTR & No NSP", "+ BiLSTM"))
FEATURES, TUNED = (TABLE_7[name] for name in ("Concat Last Four Hidden", "Fine-tuning, BASE"))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        # Section 4.1: the average of GLUE, and MNLI.
        (less(BASE, GPT, 9), 4.5),
        (less(LARGE, GPT, 9), 7.0),
        (less(LARGE, GPT, 0), 4.6),
        # Abstract and section 4.2: SQuAD 1.1's test F1, one model and seven.
        (less(ENSEMBLE, TABLE_2["nlnet (ensemble)"], TEST_F1), 1.5),
        (less(ONE, TABLE_2["nlnet (ensemble)"], TEST_F1), 0.1),  # "outperforms the top ensemble"
        # Section 4.3: SQuAD 2.0.
        (less(TABLE_3["BERT LARGE (single)"], TABLE_3["MIR-MRC, F-Net (single)"], TEST_F1), 5.1),
        # Section 4.4: SWAG.
        (less(TABLE_4["BERT LARGE"], TABLE_4["ESIM+ELMo"], 1), 27.1),
        (less(TABLE_4["BERT LARGE"], TABLE_4["OpenAI GPT"], 1), 8.3),
        # Section 5.3: features stay behind fine-tuning by so much.
        (less(TUNED, FEATURES, 0), 0.3),
    ],
)
def test_differences_told_in_the_text_are_those_of_the_tables(found: float, said: float) -> None:
    assert found == pytest.approx(said, abs=0.051)


def test_without_trivia_qa_squad_loses_a_tenth_to_four_tenths() -> None:
    # Section 4.2.
    losses = [
        less(TABLE_2[f"BERT LARGE ({name} + TriviaQA)"], TABLE_2[f"BERT LARGE ({name})"], column)
        for name in ("single", "ensemble")
        for column in (0, 1)
    ]
    assert [round(loss, 1) for loss in losses] == [0.1, 0.2, 0.4, 0.4]


def test_left_to_right_is_worse_on_every_task_and_its_bilstm_helps_squad_alone() -> None:
    # Section 5.1.
    assert all(less(NEXT, LEFT, column) > 0 for column in range(5))
    assert less(LSTM, LEFT, 4) > 0 > less(LSTM, NEXT, 4)
    assert all(less(LSTM, LEFT, column) <= 0 for column in range(4))
    assert all(less(TABLE_5["BASE"], NEXT, column) > 0 for column in range(5))


def test_each_larger_model_is_better_in_everything() -> None:
    # Section 5.2.
    for smaller, larger in pairwise(TABLE_6):
        assert less(larger, smaller, 0) < 0
        assert all(less(larger, smaller, column) > 0 for column in (1, 2, 3))


def test_large_is_above_base_on_every_set_most_on_two_of_the_smaller_and_least_on_two() -> None:
    # Section 4.1: "especially those with very little training data". RTE, MRPC, STS-B and CoLA
    # have the fewest examples.
    gains = {name: less(LARGE, BASE, column) for column, name in enumerate(GLUE)}
    assert all(gain > 0 for gain in gains.values())
    by_gain = sorted(gains, key=lambda name: -gains[name])
    assert by_gain[:2] == ["CoLA", "RTE"]
    assert by_gain[-2:] == ["STS-B", "MRPC"]


def test_fine_tuning_bears_any_mixture_and_features_want_other_tokens_than_mask() -> None:
    # Appendix C.2.
    mixture, mask_alone, *_, random_alone = TABLE_8
    assert all(abs(less(mixture, row, column)) < 0.65 for row in TABLE_8 for column in (0, 1))
    assert less(mixture, mask_alone, 2) == max(less(mixture, row, 2) for row in TABLE_8)
    assert all(less(mixture, random_alone, column) > 0 for column in range(3))


def test_one_model_stands_with_one_figure_in_several_tables() -> None:
    assert TABLE_2["BERT BASE (single)"][1] == TABLE_5["BASE"][4]
    assert CONTEMPORARIES["BERT BASE"] == (BASE[0], BASE[4], TUNED[0], FEATURES[0])
    assert CONTEMPORARIES["OpenAI GPT"][:2] == (GPT[0], GPT[4])
    assert CONTEMPORARIES["ELMo"][3] == TABLE_7["ELMo"][0]
