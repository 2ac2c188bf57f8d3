"""What a run begins with that goes on from a model: its weights, and rows for new words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints import store
from bertsmith.recipes.pretraining import further
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.directory import Record, read_record, write_record
from bertsmith.runs.pretrain_start import (
    PretrainStart,
    first_weights,
    read_pretrain_start,
    require_trainable,
)
from bertsmith.runs.training import trainee
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import CONFIG, tiny_config, tiny_model, tiny_tokenizer

TABLES = ("bert.embeddings.token.weight", "masked_lm.bias")


@pytest.fixture
def start(tmp_path: Path) -> PretrainStart:
    model = tiny_model()
    assert model.masked_lm is not None
    model.masked_lm.bias.data.uniform_()
    store.save(tmp_path / "model", model, CONFIG, tiny_tokenizer())
    (tmp_path / "words").write_text("plays\nliking\nLondons\n")
    return read_pretrain_start(tmp_path / "model", tmp_path / "words")


def run_of(start: PretrainStart) -> PretrainRun:
    phases = (Phase(steps=9, sequence_length=16, batch_size=2),)
    return replace(further(), model=start.config, phases=phases, warmup_steps=1, precision="fp32")


def record_of(start: PretrainStart) -> Record:
    return Record(
        run=run_of(start),
        corpus=Path("nowhere"),
        corpus_fingerprint="",
        command="",
        request={},
        notes=(),
        seconds_per_step=(),
        peak_bytes=0,
        unigram_entropy=1.0,
        versions={},
        model=start.place,
        model_fingerprint=start.fingerprint,
        ancestry=start.ancestry,
    )


def test_a_trainee_begins_with_the_models_weights_and_the_means_of_pieces(
    start: PretrainStart,
) -> None:
    parts = trainee(
        run_of(start), torch.device("cpu"), first_weights(record_of(start), start.tokenizer)
    )
    own, masters = start.loaded.model.state_dict(), parts.optimizer.masters()
    row_of = start.loaded.tokenizer.id_of
    for name, weights in parts.model.state_dict().items():
        assert weights.equal(masters[name])
        assert weights[: len(own[name])].equal(own[name])
    pieces = (("play", "##s"), ("[UNK]",), ("london", "##s"))  # `liking` was unknown
    for name in TABLES:
        for row, of_word in enumerate(pieces, CONFIG.vocab_size):
            expected = own[name][list(map(row_of, of_word))].mean(dim=0)
            assert masters[name][row].equal(expected)
    assert len(masters[TABLES[0]]) == CONFIG.vocab_size + 3


def test_another_models_weights_are_not_begun_with(start: PretrainStart) -> None:
    place = Path(start.place)
    store.save(place, tiny_model(seed=4), CONFIG, tiny_tokenizer())
    with pytest.raises(ValueError, match="are others than those the run began with"):
        first_weights(record_of(start), start.tokenizer)


def test_a_vocabulary_that_is_not_the_models_is_not_begun_with(start: PretrainStart) -> None:
    entries = [*tiny_tokenizer().vocabulary]
    entries[5], entries[6] = entries[6], entries[5]
    with pytest.raises(ValueError, match="is not the model's own"):
        first_weights(record_of(start), Tokenizer(entries))


def test_a_record_keeps_the_model_and_one_without_holds_nothing_of_it(
    start: PretrainStart, tmp_path: Path
) -> None:
    tmp_path.joinpath("run").mkdir()
    record = record_of(start)
    write_record(tmp_path / "run", record)
    found = read_record(tmp_path / "run")
    assert (found.model, found.model_fingerprint) == (start.place, start.fingerprint)
    write_record(tmp_path / "run", replace(record, model="", model_fingerprint="", ancestry=()))
    assert "model_fingerprint" not in (tmp_path / "run" / "run.json").read_text("utf-8")
    assert read_record(tmp_path / "run").model == ""


def test_notes_name_what_is_drawn_and_what_is_left(start: PretrainStart) -> None:
    run = run_of(start)
    told = " ".join(start.notes(replace(run, objectives=("masked_lm",))))
    assert "not part of the run's model: next-sentence head, pooler" in told
    assert "Londons -> londons" in told
    bare = replace(start, loaded=replace(start.loaded, model=tiny_model("masked_lm")), words=None)
    assert bare.notes(replace(run, seed=5)) == [
        "a new next-sentence head, drawn by seed 5: the model holds none",
        "a new pooler, drawn by seed 5: the model holds none",
    ]


def test_a_model_is_refused_where_objectives_or_lengths_do_not_fit_it() -> None:
    run = replace(further(), phases=(Phase(steps=9, sequence_length=24),), warmup_steps=1)
    require_trainable(tiny_config(), run, "it")
    with pytest.raises(ValueError, match=r"it has 23 positions.* --phases 9x23x256"):
        require_trainable(tiny_config(max_position_embeddings=23), run, "it")
    one_way = replace(run, objectives=("left_to_right_lm",))
    require_trainable(tiny_config(direction="left_to_right"), one_way, "it")
    with pytest.raises(ValueError, match="choose --objectives masked_lm"):
        require_trainable(tiny_config(), one_way, "it")
