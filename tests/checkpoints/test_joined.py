"""Two one-way models become one checkpoint whose states are theirs to the bit, or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints import joined, store
from bertsmith.features.hidden_store import encoder_fingerprint
from bertsmith.model.config import Direction, LayerKind, Objective
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.fine_tuned import ALL_HEADS, fine_tuned
from tests.checkpoints.tiny import VOCABULARY, tiny_config, tiny_tokenizer
from tests.model.plain import random_packed

OBJECTIVE: dict[Direction, Objective] = {
    "left_to_right": "left_to_right_lm",
    "right_to_left": "right_to_left_lm",
    "bidirectional": "masked_lm",
}


def one_way(folder: Path, direction: Direction, **changes: object) -> Path:
    """Writes a model of one direction."""
    config = tiny_config(direction=direction, **changes)
    model = PretrainModel(config, (OBJECTIVE[direction],), with_pooler=True)
    initialise(model, std=0.3, seed=len(direction))
    store.save(folder / direction, model, config, tiny_tokenizer())
    return folder / direction


def pair_of(folder: Path, kind: LayerKind) -> tuple[Path, Path]:
    return (
        one_way(folder, "left_to_right", layer_kind=kind),
        one_way(folder, "right_to_left", layer_kind=kind),
    )


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_states_of_what_is_written_are_those_of_the_two(kind: LayerKind, tmp_path: Path) -> None:
    left, right = pair_of(tmp_path, kind)
    told = joined.join(right, left, tmp_path / "both")  # in either order
    loaded = store.load(tmp_path / "both")
    assert loaded.notes == ()
    assert loaded.config.direction == "two_way"
    assert (loaded.config.hidden_size, loaded.config.num_attention_heads) == (64, 8)
    assert loaded.model.objectives == ()
    assert loaded.tokenizer.vocabulary == VOCABULARY
    stream = Stream.of(random_packed([5, 1, 14], len(VOCABULARY)))
    with torch.no_grad():
        sides = [store.load(each).model.bert.hidden_states(stream) for each in (left, right)]
        states = loaded.model.bert.hidden_states(stream)
    for state, *halves in zip(states, *sides, strict=True):
        assert torch.equal(state, torch.cat(halves, dim=1))
    assert told.notes == (
        f"left out of {left}: left_to_right_lm, the pooler",
        f"left out of {right}: right_to_left_lm, the pooler",
    )
    content = json.loads((tmp_path / "both" / "config.json").read_text())
    assert content["model_type"] == ("lstm_two_way" if kind == "lstm" else "bert_two_way")
    card = (tmp_path / "both" / "README.md").read_text()
    assert f"from left to right: `{left}`" in card


def test_a_fingerprint_is_of_both_sides_weights(tmp_path: Path) -> None:
    left, right = pair_of(tmp_path, "lstm")
    joined.join(left, right, tmp_path / "both")
    bert = store.load(tmp_path / "both").model.bert
    first = encoder_fingerprint(bert)
    assert first == encoder_fingerprint(store.load(tmp_path / "both").model.bert)
    bert.layers[0].right_to_left.gates.bias.data[0] += 1.0
    assert encoder_fingerprint(bert) != first


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
@pytest.mark.parametrize(
    "config", [head for head in ALL_HEADS if not head.needs_pooler and head.pooling != "cls"]
)
def test_a_head_on_it_survives_there_and_back(config, kind: LayerKind, tmp_path: Path) -> None:
    model, head = fine_tuned(config, direction="two_way", layer_kind=kind)
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    loaded = store.load(tmp_path / "m")
    assert (loaded.notes, loaded.config) == ((), model.config)
    assert loaded.head is not None
    assert loaded.head.config == config
    stream = Stream.of(random_packed([5, 1, 14], len(VOCABULARY)))
    with torch.no_grad():
        pair = [each.logits(bert, stream) for each, bert in (
            (head, model.bert), (loaded.head, loaded.model.bert),
        )]  # fmt: skip
    assert torch.equal(*pair)


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize("config", ALL_HEADS)
def test_a_head_on_an_lstm_of_one_direction_does_too(
    config, direction: Direction, tmp_path: Path
) -> None:
    model, head = fine_tuned(config, direction=direction, layer_kind="lstm")
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    loaded = store.load(tmp_path / "m")
    assert (loaded.notes, loaded.config) == ((), model.config)
    assert loaded.head is not None
    assert loaded.head.config == config


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (("left_to_right", {}), ("bidirectional", {}), r"bidirectional is bidirectional"),
        (("left_to_right", {}), ("left_to_right", {}), r"left_to_right is left_to_right and "),
        (
            ("left_to_right", {"layer_kind": "lstm"}),
            ("right_to_left", {"num_hidden_layers": 1, "intermediate_size": 16}),
            r"differ: num_hidden_layers is 2 and 1; intermediate_size is 128 and 16; "
            r"layer_kind is lstm and transformer",
        ),
    ],
)
def test_what_cannot_be_joined_is_told(first, second, told: str, tmp_path: Path) -> None:
    one, other = (one_way(tmp_path, direction, **each) for direction, each in (first, second))
    with pytest.raises(ValueError, match=told):
        joined.join(one, other, tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_what_is_to_be_said_of_both_is_said_once(tmp_path: Path) -> None:
    left, right = (
        one_way(tmp_path, direction, layer_kind="lstm", vocab_size=len(VOCABULARY) + 3)
        for direction in ("left_to_right", "right_to_left")
    )
    notes = joined.join(left, right, tmp_path / "both").notes
    assert [note for note in notes if "stand for no vocabulary entry" in note] == [notes[0]]


def test_other_vocabularies_and_a_full_directory_are_refused(tmp_path: Path) -> None:
    left, right = pair_of(tmp_path, "lstm")
    with pytest.raises(ValueError, match="exists already and is not empty"):
        joined.join(left, right, left)
    loaded = store.load(right)
    others = Tokenizer((*VOCABULARY[:-1], "mat"))
    store.save(right, loaded.model, loaded.config, others)
    with pytest.raises(ValueError, match="differ: their vocabularies are not the same"):
        joined.join(left, right, tmp_path / "both")
