"""The fine-tuning benchmark compares like with like: equal losses and scores of equal weights."""

import numpy as np
import pytest
import torch

from benchmarks.finetuning import rows, speed_systems, table
from benchmarks.finetuning.__main__ import run_of
from benchmarks.finetuning.peer import near_lengths, peer_loss, peer_model, peer_scores
from benchmarks.finetuning.rows import Key
from benchmarks.finetuning.sets import SETS as PROOF_SETS
from benchmarks.finetuning.sets import Examples, ProofSet, set_named, shortened
from bertsmith.checkpoints import store
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.task_model import TaskModel
from bertsmith.packing import Packing
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.scores import item_scores
from bertsmith.tasks.task import Classification
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer
from tests.commands.test_finetune_kinds import SETS, drawn, learning_set

TEXTS = [
    TextExample(texts=("the dog likes my cat", "paris"), labels=(str(row[0]),), place=f"x:{number}")
    for number, row in enumerate(drawn(12, 5))
]
KINDS = {
    **SETS,
    "labels": learning_set(
        Classification(scheme=LabelScheme(("0", "1", "2")), max_tokens=16), TEXTS, TEXTS
    ),
    "number": learning_set(
        Classification(scheme=LabelScheme(("score",), "regression"), max_tokens=16), TEXTS, TEXTS
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_both_systems_have_the_same_loss_and_scores(kind, tmp_path) -> None:
    learning, tokenizer = KINDS[kind], tiny_tokenizer()
    labelled = learning.task.encode(learning.dev, tokenizer).labelled
    pretrained = tiny_model()
    head = TaskHead(pretrained.config, learning.task.head)
    initialise(head, std=0.3, seed=1)
    model = TaskModel(pretrained.bert, head).eval()
    store.save(tmp_path / "model", pretrained, pretrained.config, tokenizer, head=head)
    peer = peer_model(tmp_path / "model", learning.task.head).eval()

    groups = np.arange(6)
    with torch.no_grad():
        loss = float(model(labelled.batch(groups)).loss)
        theirs = float(peer_loss(peer, learning.task.head, labelled, groups))
    assert theirs == pytest.approx(loss, abs=1e-5)
    packing = Packing.of(model.bert)
    with torch.no_grad():
        ours = item_scores(model.bert, head, labelled, packing, lambda share: None)
    for own, theirs in zip(ours, peer_scores(peer, learning.task.head, labelled), strict=True):
        np.testing.assert_allclose(own, theirs, atol=1e-4)


def test_every_row_names_values_that_a_run_takes() -> None:
    for row in PROOF_SETS:
        assert set_named(row.name) is row
        run = run_of(row, 3)
        assert (run.epochs, run.seed, run.keep_best) == (row.epochs, 3, False)
    with pytest.raises(ValueError, match="known: RTE"):
        set_named("MNLI")


def test_shortened_keeps_the_task() -> None:
    whole = Examples(task=KINDS["labels"].task, train=TEXTS, dev=TEXTS)
    assert shortened(whole, None) is whole
    assert len(shortened(whole, 5).train) == 5


def test_the_peers_batches_hold_near_lengths_and_every_group_once() -> None:
    generator = torch.Generator().manual_seed(3)
    lengths = np.random.default_rng(1).integers(1, 129, 1000)
    order = near_lengths(np.random.default_rng(2).permutation(1000), lengths, 32, generator)
    assert sorted(order.tolist()) == list(range(1000))
    batches = [lengths[order[start : start + 32]] for start in range(0, 992, 32)]
    padded = sum(int(each.max()) * len(each) for each in batches)
    assert padded < 1.25 * sum(int(each.sum()) for each in batches)
    longest = [int(each.max()) for each in batches]
    assert sorted(longest) != longest != sorted(longest, reverse=True)


def test_the_table_has_a_line_for_each_set_and_model_that_has_all_its_runs(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("benchmarks.machine.RESULTS", tmp_path)

    def stored(system, seed, score, seconds, **changes):
        key = Key(set="RTE", model="minilm", system=system, seed=seed, precision="bf16")
        result = rows.Result(scores={"accuracy": score}, seconds=seconds, **changes)
        rows.store(key, result, {})
        return table.markdown(rows.stored(tmp_path / "finetuning.jsonl")).splitlines()[2:]

    for seed, score in enumerate((0.6, 0.62, 0.64, 0.62)):
        stored("bertsmith", seed, score, 60.0 * (seed + 1))
    for seed, score in enumerate((0.58, 0.6, 0.62)):
        assert stored("transformers", seed, score, 120.0) == []
    # It went on after a stop: its seconds say nothing.
    (line,) = stored("bertsmith", 4, 0.62, 1.0, is_resumed=True)
    assert line.startswith(
        "| RTE | minilm | bf16 | accuracy | 62.0 +- 1.4 (5) | 60.0 +- 2.0 (3) |  | +2.0"
    )
    assert line.endswith(" inside | 2.5 / 2.0 |")


def test_what_is_not_the_official_set_is_told_beside_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.machine.RESULTS", tmp_path)
    for system in ("bertsmith", "transformers"):
        key = Key(set="KorQuAD", model="mini-ko", system=system, seed=0, precision="bf16")
        rows.store(key, rows.Result(scores={"f1": 5.0}, seconds=1.0), {})
    some = ProofSet(
        name="KorQuAD", read=lambda _: None, models=("mini-ko",), seeds=1, what="a part"
    )
    monkeypatch.setattr(table, "SETS", (some,))
    text = table.markdown(rows.stored(tmp_path / "finetuning.jsonl"))
    assert "| KorQuAD (a part) | mini-ko | bf16 | f1 |" in text


def test_grouped_batches_hold_every_example_once_and_lengths_that_are_alike() -> None:
    labelled = KINDS["tagging"].task.encode(KINDS["tagging"].train * 10, tiny_tokenizer()).labelled
    lengths = np.array([len(item.token_ids) for item in labelled.items])
    batches = speed_systems.grouped(labelled)
    seen = [next(batches) for _ in range(len(lengths) // speed_systems.BATCH)]
    assert len(set(np.concatenate(seen).tolist())) == len(seen) * speed_systems.BATCH
    spread = np.mean([np.ptp(lengths[batch]) for batch in seen])
    assert spread <= np.ptp(lengths) / 2 or np.ptp(lengths) <= 1
