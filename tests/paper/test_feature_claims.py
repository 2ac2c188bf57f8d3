"""Table 7: named entities from frozen features, a recipe a row, each on the layers of its words."""

from __future__ import annotations

import pytest
import torch

from bertsmith.model.config import BASE
from bertsmith.model.heads import TaskHead
from bertsmith.model.task import TaskHeadConfig
from bertsmith.recipes.finetuning import RECIPES, TABLE_7, FinetuneRun

ROWS = {
    "embeddings": ((0,), 768),
    "second-to-last": ((11,), 768),
    "last": ((12,), 768),
    "weighted-sum-last-four": ((9, 10, 11, 12), 768),
    "concat-last-four": ((9, 10, 11, 12), 4 * 768),
    "weighted-sum-all": (tuple(range(1, 13)), 768),
}


@pytest.mark.parametrize("layers", TABLE_7)
def test_each_row_of_table_7_is_a_bilstm_on_its_layers_of_a_frozen_encoder(layers: str) -> None:
    run: FinetuneRun = RECIPES[f"ner-features-{layers}"]()
    assert (run.approach, run.on_top) == ("feature_based", "bilstm")
    config = TaskHeadConfig(
        kind="token_classification", labels=("O", "B-PER", "I-PER"), layers=run.layers,
        on_top=run.on_top, lstm_size=run.lstm_size, lstm_layers=run.lstm_layers,
    )  # fmt: skip
    with torch.device("meta"):
        head = TaskHead(BASE, config)
    numbers, width = ROWS[layers]
    assert head.layer_numbers == numbers
    assert (head.layer_mix is not None) == layers.startswith("weighted")
    assert head.bilstm is not None
    lstm = head.bilstm.lstm
    assert (lstm.input_size, lstm.hidden_size, lstm.num_layers) == (width, 768, 2)
    assert lstm.bidirectional
    assert head.scores.in_features == 2 * 768
