"""Samples and the README of a run's directory."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from bertsmith.commands.decision import with_size
from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.compiler import without_native
from bertsmith.corpus.store import Corpus
from bertsmith.model.config import Direction
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.runs import report
from bertsmith.runs.directory import (
    Record,
    changed_versions,
    check_corpus,
    drop_old_checkpoints,
    fingerprint,
    reached,
    read_record,
    versions,
    write_record,
)
from bertsmith.runs.evaluation import Evaluation
from bertsmith.runs.report import Sample, held_out_questions, next_command, write_readme
from bertsmith.train.device import ALONE
from tests.commands.small_run import write_text


@pytest.fixture(scope="module")
def corpus_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    text = write_text(folder / "text", num_documents=60)
    choices = TextChoices(vocab_size=200, held_out=0.3, reading=ReadingChoices(workers=1))
    return corpus_of([text], choices, folder, Console(quiet=True))


def record_of(corpus: Path) -> Record:
    return Record(
        run=mini_cpu(),
        corpus=corpus,
        corpus_fingerprint=fingerprint(corpus),
        command="bertsmith pretrain texts",
        request={"minutes": 60.0},
        notes=("size mini chosen",),
        seconds_per_step=(0.1,),
        peak_bytes=1,
        unigram_entropy=6.5,
        versions={"python": "3.11", "bertsmith": "0.1.0"},
    )


def test_questions_are_held_out_sentences_with_one_word_hidden(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path, "held_out")
    tokenizer = corpus.tokenizer()
    questions = held_out_questions(corpus, tokenizer, 3)
    assert len(questions) == 3
    assert questions == held_out_questions(corpus, tokenizer, 3)
    sentences = {
        tokenizer.decode(sentence.tolist())
        for document in range(corpus.num_documents)
        for sentence in corpus.document_sentences(document)
    }
    for text, hidden in questions:
        assert text.replace("[MASK]", hidden) in sentences
        assert hidden.isalpha()


def test_a_record_is_read_back_as_it_was_written(corpus_path: Path, tmp_path: Path) -> None:
    write_record(tmp_path, record_of(corpus_path))
    found = read_record(tmp_path)
    assert found.run == mini_cpu()
    assert found.corpus.resolve() == corpus_path.resolve()
    assert found.request == {"minutes": 60.0}
    check_corpus(found)


def test_a_corpus_inside_the_run_may_move_with_it(corpus_path: Path, tmp_path: Path) -> None:
    directory = corpus_path.parent
    write_record(directory, record_of(corpus_path))
    moved = tmp_path / "moved"
    directory.rename(moved)
    try:
        check_corpus(read_record(moved))
    finally:
        moved.rename(directory)


def test_a_changed_corpus_stops_the_run(corpus_path: Path, tmp_path: Path) -> None:
    write_record(tmp_path, record_of(corpus_path))
    manifest = corpus_path / "manifest.json"
    content = manifest.read_bytes()
    manifest.write_bytes(content + b"\n")
    try:
        with pytest.raises(ValueError, match="has changed since the run began"):
            check_corpus(read_record(tmp_path))
    finally:
        manifest.write_bytes(content)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run": ')
    with pytest.raises(ValueError, match=r"run\.json is not JSON"):
        read_record(tmp_path)
    (tmp_path / "run.json").write_text('{"steps": 3}')
    with pytest.raises(ValueError, match=r"run\.json was not written by this version .*'run'"):
        read_record(tmp_path)


@pytest.mark.parametrize("keep", [1, 2])
def test_old_checkpoints_go_and_the_newest_and_a_copy_stay(tmp_path: Path, keep: int) -> None:
    names = ["step-00000010", "step-00000020", "step-00000100", "step-00000020-good", "step-best"]
    for name in names:
        directory = tmp_path / "checkpoints" / name
        directory.mkdir(parents=True)
        for file in ("config.json", "model.safetensors"):
            (directory / file).write_text("")
    drop_old_checkpoints(tmp_path, keep)
    left = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert left == {"step-best", "step-00000020-good", *names[3 - keep : 3]}


def test_a_run_without_checkpoints_has_reached_nothing(tmp_path: Path) -> None:
    assert reached(tmp_path) == 0


@pytest.mark.parametrize(("loss", "is_warned"), [(6.4, False), (6.5, True), (6.612, True)])
def test_a_model_that_is_not_under_the_unigram_line_is_warned_of_on_screen_and_in_the_readme(
    corpus_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loss: float,
    is_warned: bool,
) -> None:
    monkeypatch.setattr(report, "samples", lambda *_: [])
    found = Evaluation(loss=loss, accuracy=0.1, targets=9, sequences=9)
    lines = report.explain(tmp_path, record_of(corpus_path), found, seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert len(warnings) == is_warned
    assert ("is not under the unigram line (6.500)" in "".join(warnings)) == is_warned
    assert ("**Warning:** the held-out loss" in text) == is_warned
    assert ("0.100 under the unigram line" in text) == (loss == 6.4)
    assert ("0.112 above the unigram line" in text) == (loss == 6.612)


def test_the_readme_names_the_recipe_and_what_was_changed(
    corpus_path: Path, tmp_path: Path
) -> None:
    record = record_of(corpus_path)
    write_readme(tmp_path, record, None, [], seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "with the recipe `mini-cpu`: 4 layers of 256" in text
    tiny = replace(with_size(record.run, "tiny", ["learning_rate"]), name="mine")
    changed = replace(record, run=tiny, request={"recipe": "auto"})
    write_readme(tmp_path, changed, None, [], seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "with the recipe `mini-cpu`, changed as listed below: 2 layers of 128" in text
    listed = [line for line in text.splitlines() if "(recipe: " in line]
    assert [line.split()[1] for line in listed] == [
        "model.hidden_size", "model.num_hidden_layers", "model.num_attention_heads",
        "model.intermediate_size", "optimizer.learning_rate",
    ]  # fmt: skip
    assert "- model.hidden_size 128 (recipe: 256)" in listed
    own = replace(record, run=replace(tiny, name="mine"), request={})
    write_readme(tmp_path, own, None, [], seconds=90.0)
    assert "with the run `mine`: 2 layers" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_readme_holds_results_samples_and_the_next_command(
    corpus_path: Path, tmp_path: Path
) -> None:
    found = Evaluation(
        loss=4.0, accuracy=0.3, targets=1_234, sequences=99, next_accuracy=0.7,
        next_balanced_accuracy=0.69, next_majority=0.55, next_loss=0.6,
    )  # fmt: skip
    shown = [Sample(text="the [MASK] sees", hidden="cat", candidates=(("dog", 0.5), ("cat", 0.4)))]
    record = record_of(corpus_path)
    write_readme(tmp_path, record, found, shown, seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    for part in (
        "4.000 nats (2.500 under the unigram line at 6.500)", "54.60", "30.0% of 1,234",
        "70.0% of 99 pairs (majority label 55.0%)", "69.0%", "1.5 minutes", "(hidden: cat)",
        next_command(tmp_path, record.run, shown), "size mini chosen", "bertsmith pretrain texts",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    "text", ['say "yes" to [MASK]', "it costs $5 `a` [MASK]", "the cat's [MASK]"]
)
def test_the_next_command_asks_a_shell_for_the_very_text(tmp_path: Path, text: str) -> None:
    run = tmp_path / "my run"
    words = shlex.split(
        next_command(run, mini_cpu(), [Sample(text=text, hidden="", candidates=())])
    )
    assert words == ["bertsmith", "predict", "fill-mask", "--model", str(run), text]


def test_without_samples_the_next_command_still_runs() -> None:
    run = Path("runs/mini")
    assert shlex.split(next_command(run, mini_cpu(), []))[-1].count("[MASK]") == 1
    forward = replace(
        mini_cpu(),
        model=replace(mini_cpu().model, direction="left_to_right"),
        objectives=("left_to_right_lm", "next_sentence"),
    )
    assert next_command(run, forward, []) == "bertsmith plot runs/mini"


@pytest.mark.parametrize(
    ("direction", "objective", "said"),
    [
        ("bidirectional", "masked_lm", "AutoModelForMaskedLM"),
        ("left_to_right", "left_to_right_lm", "AutoModelForCausalLM"),
        ("right_to_left", "right_to_left_lm", None),
    ],
)
def test_the_readme_names_the_class_of_transformers_that_computes_the_same(
    corpus_path: Path, tmp_path: Path, direction: Direction, objective: str, said: str | None
) -> None:
    record = record_of(corpus_path)
    model = replace(record.run.model, direction=direction)
    run = replace(record.run, model=model, objectives=(objective,))
    write_readme(tmp_path, replace(record, run=run), None, [], seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "no document was held out to evaluate on (--held-out says how many)" in text
    assert f"`{said}.from_pretrained" in text if said else "from_pretrained" not in text


def test_an_lstm_is_called_no_bert_and_nothing_for_transformers(
    corpus_path: Path, tmp_path: Path
) -> None:
    record = record_of(corpus_path)
    model = replace(record.run.model, direction="left_to_right", layer_kind="lstm")
    run = replace(record.run, model=model, objectives=("left_to_right_lm",))
    write_readme(tmp_path, replace(record, run=run), None, [], seconds=90.0)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "A language model of LSTM layers pre-trained by bertsmith" in text
    assert "A BERT" not in text
    assert "transformers" not in text


def test_only_what_the_record_knows_can_have_changed(corpus_path: Path) -> None:
    record = replace(record_of(corpus_path), versions={"torch": "2.12", "threads": "2"})
    now = {"torch": "2.12", "threads": "1", "device": "cpu"}
    assert changed_versions(record.versions, now, record.run.precision) == ["threads 2 -> 1"]


def test_a_run_from_before_there_were_functions_in_c_knows_that_it_had_none() -> None:
    began = {"torch": "2.12"}
    assert changed_versions(began, {"torch": "2.12", "cpu_functions": "no"}, "bf16") == []
    changed = changed_versions(began, {"torch": "2.12", "cpu_functions": "yes"}, "bf16")
    assert changed == ["cpu_functions no -> yes"]


def test_products_of_float16_are_missed_by_runs_that_made_them_alone() -> None:
    began = {"torch": "2.12", "fp16_products": "yes"}
    assert changed_versions(began, {"torch": "2.12"}, "bf16") == []
    assert changed_versions(began, {"torch": "2.12"}, "fp16") == ["fp16_products yes -> none"]


def test_the_versions_name_what_bits_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    with without_native():
        found = versions(torch.device("cpu"), ALONE, "fp32")
    assert found["device"] == "cpu"
    assert found["gpu"] == "none"
    assert found["instruction_set_cap"] == "AVX2"
    assert found["threads"] == str(torch.get_num_threads())
    assert found["processes"] == "1"
    assert found["fused_kernels"] == "no"  # the tests run the plain functions
    assert found["cpu_functions"] == "no"
    assert versions(torch.device("meta"), ALONE, "fp32")["bf16_instructions"] == "none"


@pytest.mark.parametrize(
    ("has", "told"),
    [
        ({}, "none"),
        ({"avx512_bf16": True, "amx_bf16": False, "avx2": True}, "avx512_bf16"),
        ({"avx512_bf16": True, "amx_bf16": True}, "avx512_bf16 amx_bf16"),
    ],
)
def test_what_chooses_between_products_is_named(
    has: dict[str, bool], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert versions(torch.device("cpu"), ALONE, "fp32")["bf16_instructions"] == told
