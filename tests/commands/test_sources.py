"""Every kind of file that the command line takes is learned, scored, resumed, and refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints.store import Loaded, load
from bertsmith.commands import evaluate
from bertsmith.commands.finetune_options import defaults_of
from bertsmith.commands.sources.remembered import remembered
from bertsmith.commands.task_files import typed_words
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import RECIPES
from bertsmith.runs.finetune_report import answering_model
from bertsmith.tasks.stored import Learned, read_learned, read_task
from bertsmith.train.config import Precision
from tests.commands.small_files import (
    RUN,
    SPANS,
    TEXTS,
    asked_rows,
    choices,
    pairs,
    squad,
    swag,
    tagged,
    texts,
    word_rows,
)
from tests.commands.small_run import killed_at
from tests.commands.small_task import bertsmith, score_lines, write_glue, write_model


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of file."""

    option: str
    write: Callable[[Path, int, int], Path]
    """A path without its suffix, how many examples, a key that draws others -> the file."""
    recipe: str
    task: str
    metric: str
    options: tuple[str, ...] = ()
    columns: Mapping[str, object] = field(default_factory=dict)
    """Some of those that the model remembers, to be asked by the same."""

    def files(self, folder: Path) -> tuple[object, ...]:
        """Writes two files, and names them."""
        train, dev = self.write(folder / "train", 32, 1), self.write(folder / "dev", 8, 2)
        return (f"--{self.option}", train, "--dev", dev, *self.options)


KINDS = {
    "squad": Kind(
        option="squad", recipe="squad", task="SpanAnswering", metric="f1", options=SPANS,
        write=lambda path, count, key: squad(path.with_suffix(".json"), count, key),
    ),
    "squad2": Kind(
        option="squad", recipe="squad2", task="SpanAnswering", metric="f1", options=SPANS,
        write=lambda path, count, key: squad(
            path.with_suffix(".json"), count, key, some_impossible=True
        ),
    ),
    "tagged": Kind(
        option="tagged", recipe="ner", task="Tagging", metric="f1",
        write=lambda path, count, key: tagged(path.with_suffix(".txt"), count, key),
    ),
    "questions in rows": Kind(
        option="squad", recipe="squad", task="SpanAnswering", metric="f1", options=SPANS,
        columns={"answers": "answers", "start": "answer_start"},
        write=lambda path, count, key: asked_rows(path.with_suffix(".csv"), count, key),
    ),
    "a word a row": Kind(
        option="tagged", recipe="ner", task="Tagging", metric="f1",
        options=("--sentence-column", "number"),
        columns={"sentence": "number", "words": "word", "tags": "tag"},
        write=lambda path, count, key: word_rows(path.with_suffix(".csv"), count, key),
    ),
    "swag": Kind(
        option="choices", recipe="swag", task="MultipleChoice", metric="accuracy",
        columns={"text": "sent1", "begun": "sent2"},
        write=lambda path, count, key: swag(path.with_suffix(".csv"), count, key),
    ),
    "arc": Kind(
        option="choices", recipe="swag", task="MultipleChoice", metric="accuracy",
        write=lambda path, count, key: choices(path.with_suffix(".jsonl"), count, key),
    ),
    "labels": Kind(
        option="texts", recipe="glue", task="Classification", metric="accuracy", options=TEXTS,
        columns={"texts": ["words"], "label": "about"},
        write=lambda path, count, key: texts(path.with_suffix(".csv"), count, key),
    ),
    "several labels": Kind(
        option="texts", recipe="glue", task="Classification", metric="f1",
        options=(*TEXTS, "--separator", ";", "--problem", "multi_label"),
        write=lambda path, count, key: texts(
            path.with_suffix(".csv"), count, key, problem="multi_label"
        ),
    ),
    "numbers": Kind(
        option="texts", recipe="glue", task="Classification", metric="spearman",
        options=(*TEXTS, "--problem", "regression", "--metrics", "spearman"),
        write=lambda path, count, key: texts(
            path.with_suffix(".csv"), count, key, problem="regression"
        ),
    ),
    "pairs": Kind(
        option="texts", recipe="glue", task="Classification", metric="macro_f1",
        options=("--text-columns", "first", "second", "--metrics", "macro_f1", "accuracy"),
        write=lambda path, count, key: pairs(path.with_suffix(".jsonl"), count, key),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned nothing."""
    return write_model(tmp_path_factory.mktemp("sources") / "model")


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_learned_and_its_printed_command_scores_the_same(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, run = KINDS[name], tmp_path / "run"
    begin = ("finetune", model, *kind.files(tmp_path), *RUN, "--out", run)
    assert bertsmith(*begin) == 0
    told = capsys.readouterr().out.splitlines()
    record = json.loads((run / "run.json").read_text())
    assert (record["run"]["name"], record["task"]["kind"]) == (kind.recipe, kind.task)
    directory = load(run).directory
    assert read_task(directory) is not None
    assert read_learned(directory).name == f"{kind.option}-train"
    learned = read_learned(directory).columns
    assert {name: learned[name] for name in kind.columns} == kind.columns
    scores = score_lines(told)
    assert scores[0].split()[0] == kind.metric
    assert bertsmith(*shlex.split(told[-1])[1:]) == 0
    assert score_lines(capsys.readouterr().out.splitlines()) == scores


def test_a_model_is_scored_again_in_the_precision_of_its_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    precisions = []

    def noted(loaded: Loaded, precision: Precision, device: torch.device) -> TaskModel:
        precisions.append(precision)
        return answering_model(loaded, precision, device)

    monkeypatch.setattr(evaluate, "answering_model", noted)
    files, run = KINDS["squad2"].files(tmp_path), tmp_path / "run"
    assert bertsmith("finetune", model, *files, *RUN, "--precision", "bf16", "--out", run) == 0
    printed = shlex.split(capsys.readouterr().out.splitlines()[-1])[1:]
    assert bertsmith(*printed) == 0
    assert bertsmith(*printed, "--precision", "fp32") == 0
    assert precisions == ["bf16", "fp32"]


def test_killed_and_resumed_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    files = KINDS["squad2"].files(tmp_path)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    begin = ("finetune", model, *files, *RUN, "--out")
    assert bertsmith(*begin, whole) == 0
    killed_at(5, *begin, resumed)
    assert bertsmith("finetune", "--resume", resumed) == 0
    for name in ("best/model.safetensors", "best/task.json", "scores.json"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name


def test_without_a_dev_file_a_share_is_held_out_and_scored_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train = squad(tmp_path / "places.json", 40, 1)
    options = (*SPANS, "--dev-share", "0.2", "--split-seed", "3", "--epochs", "0.5")
    assert bertsmith("finetune", model, "--squad", train, *RUN, *options) == 0
    told = capsys.readouterr().out.splitlines()
    assert any("to evaluate on: 8 of the 40 examples of" in line for line in told)
    assert (tmp_path / "runs" / "model-squad-places" / "best").is_dir()
    assert bertsmith(*shlex.split(told[-1])[1:]) == 0
    again = capsys.readouterr().out.splitlines()
    assert score_lines(again) == score_lines(told)
    assert any("to evaluate on, 8 examples" in line for line in again)
    assert bertsmith("evaluate", "runs/model-squad-places", "--squad", train) == 0
    assert "places.json, 40 examples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--squad", "nowhere.json"), "nowhere.json: no such file"),
        (("--squad", "{squad}", "--dev", "nowhere.json"), "nowhere.json: no such file"),
        (("--tagged", "{folder}"), "is a directory, expected a file"),
        (("--squad", "{squad}", "--glue", "."), "--glue and --squad name examples of different"),
        (("--squad", "{squad}", "--task", "RTE"), "--task says nothing of the examples of --squad"),
        (("--squad", "{squad}", "--doc-stride", "0"), "doc_stride must be at least 1, found 0"),
        (("--squad", "{squad}", "--max-tokens", "64"), "max_tokens 64 is too small for questions"),
        (("--squad", "{squad}", "--max-tokens", "128"), "doc_stride must be at most 61"),
        (("--squad", "{squad}", "--dev", "{squad2}", "--squad-version", "1.1"),
         "squad2.json: data[0].paragraphs[0].qas[0]: the question has no answer, as have 2 of 8"),
        (("--squad", "{squad}", "--dev", "{squad2}", "--dev-share", "0.2"), "leave one of them"),
        (("--squad", "{squad}", "--dev-share", "1.5"), "must be between 0 and 1: 1.5"),
        (("--glue", "{folder}", "--task", "RTE", "--doc-stride", "3"), "--doc-stride says nothing"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line_before_anything_is_written(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    places = {
        "folder": tmp_path,
        "squad": squad(tmp_path / "squad.json", 8, 1),
        "squad2": squad(tmp_path / "squad2.json", 8, 2, some_impossible=True),
    }
    asked = [each.format(**places) for each in arguments]
    assert bertsmith("finetune", model, *asked, "--out", tmp_path / "run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not list(tmp_path.rglob("run.json"))


BROKEN = {
    "a column that is not there": (
        "a.csv", "word,about\nthe dog,a\n", ("--texts", "a.csv", *TEXTS),
        "a.csv: no column 'words', found 'word', 'about': name the right one with --text-columns; "
        "did you mean 'word'?", None,
    ),
    "a ragged row": (
        "a.csv", "words,about\nthe dog,a\nthe cat,b,c\nmy cat,b\n", ("--texts", "a.csv", *TEXTS),
        "a.csv:3: 3 columns, expected 2", "a.csv: 1 row left out: ",
    ),
    "no label": (
        "a.csv", "words,about\nthe dog,a\nthe cat,\nmy cat,b\n", ("--texts", "a.csv", *TEXTS),
        "a.csv:3: the label is empty", "a.csv: 1 row left out: ",
    ),
    "one label alone": (
        "a.csv", "words,about\nthe dog,a\nthe cat,a\n", ("--texts", "a.csv", *TEXTS),
        "a.csv:2 on, and no label but 'a': there is nothing to tell apart", None,
    ),
    "no number": (
        "a.csv", "words,about\nthe dog,1\nthe cat,b\nmy cat,2\n",
        ("--texts", "a.csv", *TEXTS, "--problem", "regression"),
        "a.csv:3: 'b' is no number", "a.csv: 1 row left out: ",
    ),
    "one number alone": (
        "a.csv", "words,about\nthe dog,3\nthe cat,3.0\n",
        ("--texts", "a.csv", *TEXTS, "--problem", "regression"),
        "a.csv:2 on, and no number but 3: there is nothing to learn", None,
    ),
    "one tag alone": (
        "a.conll", "the\tO\ndog\tO\n\nmy\tO\n", ("--tagged", "a.conll"),
        "a.conll: all words have the tag 'O', so there is nothing to learn; is it the right column",
        None,
    ),
    "words without a column of sentences": (
        "a.csv", "word,tag\ndog,O\nparis,B-LOC\n", ("--tagged", "a.csv"),
        "a.csv: no column 'sentence_id', found 'word', 'tag': of a table of a word a row name the "
        "column of its sentence with --sentence-column", None,
    ),
    "a sentence that goes on behind another": (
        "a.csv", "n,word,tag\n1,dog,O\n2,paris,B-LOC\n1,my,O\n",
        ("--tagged", "a.csv", "--sentence-column", "n"),
        "a.csv:4: sentence '1' began at ", None,
    ),
    "an answer in several places": (
        "a.csv", "question,context,answer\nis he ?,my dog my cat,my\nis he ?,the dog,dog\n"
        "is he ?,the cat,cat\n", ("--squad", "a.csv", *SPANS),
        "a.csv:2: the answer 'my' stands in the passage more than once, at 0 and at 7",
        "a.csv: 1 row left out: ",
    ),
    "a spreadsheet": (
        "a.xlsx", "PK", ("--texts", "a.xlsx"),
        "a.xlsx: a spreadsheet (.xlsx) is not read: export the sheet as CSV", None,
    ),
    "columns between semicolons": (
        "a.csv", "words;about\nthe dog;a\nthe cat;b\n", ("--texts", "a.csv", *TEXTS),
        "did you mean 'words;about'? (its columns seem to be separated by semicolons: export it "
        "with commas)", None,
    ),
    "an id twice": (
        "a.csv", "id,words,about\n1,the dog,a\n1,the cat,b\n2,my cat,b\n",
        ("--texts", "a.csv", *TEXTS, "--key-column", "id"),
        "a.csv:3: id '1' stands at", "a.csv: 1 row left out: ",
    ),
    "bytes of another encoding": (
        "a.csv", "words,about\nthe dog,a\n\udcb0\udca1\udcb0\udca1,b\n",
        ("--texts", "a.csv", *TEXTS), "a.csv:3: not UTF-8: byte 0xb0", None,
    ),
    "a metric of another problem": (
        "a.csv", "words,about\nthe dog,a\nthe cat,b\n",
        ("--texts", "a.csv", *TEXTS, "--metrics", "pearson"),
        "single_label is scored by accuracy, macro_f1, f1, matthews, not by pearson", None,
    ),
    "f1 of three labels": (
        "a.csv", "words,about\nthe dog,a\nthe cat,b\nmy cat,c\n",
        ("--texts", "a.csv", *TEXTS, "--metrics", "f1"), "f1 is that of the second label of two",
        None,
    ),
    "a line that is not JSON": (
        "a.jsonl", '{"text": "the dog", "label": "a"}\n{"text"\n{"text": "my cat", "label": "b"}\n',
        ("--texts", "a.jsonl"), "a.jsonl:2: not JSON", "a.jsonl: 1 row left out: ",
    ),
    "a tag that is no BIO": (
        "a.txt", "dog O\nparis B-LOC\n\nmy O\nlondon LOC\n\nmy O\n", ("--tagged", "a.txt"),
        "a.txt:5: word 2 ('london'): 'LOC' is no tag", "a.txt: 1 row left out: ",
    ),
    "a tag column that is not there": (
        "a.txt", "dog O\nparis B-LOC\n", ("--tagged", "a.txt", "--tag-column", "2"),
        "a.txt:1: no column 2, found 2", None,
    ),
    "a tag column by name": (
        "a.txt", "dog O\nparis B-LOC\n", ("--tagged", "a.txt", "--tag-column", "ner"),
        "--tag-column of CoNLL's columns is a number", None,
    ),
    "options of rows": (
        "a.txt", "dog O\n", ("--tagged", "a.txt", "--word-column", "tokens"),
        "--word-column is for .jsonl and .parquet", None,
    ),
    "no header of CoNLL's columns": (
        "a.txt", "dog O\n", ("--tagged", "a.txt", "--no-header"),
        "--no-header is for .jsonl and .parquet, and for a table with a --sentence-column", None,
    ),
    "choices in no known columns": (
        "a.csv", "question,a,b\nthe dog,my,he\n", ("--choices", "a.csv"),
        "neither SWAG's columns nor ARC's, found 'question', 'a', 'b': name what", None,
    ),
    "a choice that is none": (
        "a.csv", "question,a,b,label\nthe dog,my,he,2\nthe cat,my,he,1\nmy cat,my,he,0\n",
        ("--choices", "a.csv", "--text-columns", "question", "--choice-columns", "a", "b"),
        "a.csv:2: label '2' is none of the 2 choices counted from 0; where the file "
        "counts otherwise, say what it calls the first with --first-choice",
        "a.csv: 1 row left out: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_told_with_its_line_or_counted(
    name: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file, text, arguments, told, counted = BROKEN[name]
    (tmp_path / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    begin = ("finetune", model, *arguments, "--max-tokens", "16", "--plan-only")
    assert bertsmith(*begin) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    if counted is not None:
        assert bertsmith(*begin, "--skip-malformed", "--dev-share", "0.5") == 0
        assert counted in capsys.readouterr().out


@pytest.mark.parametrize("option", ["squad", "choices"])
def test_ids_need_not_be_unique_where_that_is_said(
    option: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    text = (squad if option == "squad" else choices)(path, 8, 1).read_text()
    if option == "squad":
        passages = json.loads(text)["data"][0]["paragraphs"]
        asked = [(each["context"], each["qas"][0]) for each in passages]
        rows = [{"context": context, **question} for context, question in asked]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
    path.write_text(text + text)
    options = SPANS if option == "squad" else ()
    begin = ("finetune", model, f"--{option}", path, "--max-tokens", "16", *options, "--plan-only")
    assert bertsmith(*begin) == 2
    assert "a.jsonl:9: id '" in capsys.readouterr().err
    assert bertsmith(*begin, "--key-column", "") == 0


@pytest.mark.parametrize(
    ("typed", "recipe"),
    [
        ("--squad {squad}", "squad"),
        ("--squad {squad} --dev {squad2}", "squad2"),
        ("--squad={squad2} --squad-version 1.1", "squad"),
        ("--squad nowhere.json", "squad"),
        ("--squad {squad2} --recipe glue", "glue"),
        ("--tagged x", "ner"),
        ("--choices x", "swag"),
        ("--texts x", "glue"),
        ("--texts x --recipe sqad", "glue"),
    ],
)
def test_the_recipe_follows_the_examples_unless_it_is_typed(
    typed: str, recipe: str, tmp_path: Path
) -> None:
    places = {
        "squad": squad(tmp_path / "squad.json", 8, 1),
        "squad2": squad(tmp_path / "squad2.json", 8, 2, some_impossible=True),
    }
    assert defaults_of(typed.format(**places).split()).run == RECIPES[recipe]()


def test_a_model_is_not_scored_on_examples_of_another_kind(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tagged(tmp_path / "train.txt", 8, 1)
    begin = ("finetune", model, "--tagged", path, "--dev", path, *RUN, "--epochs", "1")
    assert bertsmith(*begin, "--out", tmp_path / "run") == 0
    others: tuple[tuple[str, Path, tuple[str, ...]], ...] = (
        ("squad", squad(tmp_path / "a.json", 4, 1), ()),
        ("choices", swag(tmp_path / "a.csv", 4, 1), ()),
        ("texts", texts(tmp_path / "b.csv", 8, 1), TEXTS),
    )
    for option, file, columns in others:
        assert bertsmith("evaluate", tmp_path / "run", f"--{option}", file, *columns) == 2
        assert f"the model learned Tagging, and --{option} holds" in capsys.readouterr().err
    glue = write_glue(tmp_path / "glue")
    assert bertsmith("evaluate", tmp_path / "run", "--glue", glue, "--task", "SST-2") == 2
    assert "the model learned Tagging, and --glue holds" in capsys.readouterr().err


def test_labels_and_tags_of_dev_must_have_been_learned(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "train.csv": "text,label\nthe dog,beast\nmy cat,beast\nparis,place\n",
        "dev.csv": "text,label\nlondon,place\nmy dog,beats\nthe dog,beats\n",
        "more.csv": "text,label\nlondon,place\nmy dog,beats\nthe dog,plaice\n",
        "train.txt": "dog O\nparis B-LOC\n\nmy O\n",
        "dev.txt": "dog O\n\nmy O\nfrance I-LAND\n",
        "characters.tsv": "d\tO\n \tO\np\tB-LOC\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for arguments, told in (
        (("--texts", "train.csv", "--dev", "dev.csv"),
         "dev.csv:3: label 'beats' (2 in all) is none of the 2 that are learned: beast, place; "
         "did you mean 'beast'?"),
        (("--texts", "train.csv", "--dev", "more.csv"),
         "more.csv:3: label 'beats' and 1 other label (2 in all) are none of the 2 that are"),
        (("--tagged", "train.txt", "--dev", "dev.txt"),
         "dev.txt:4: word 2 ('france') has the tag 'I-LAND', none of the 3"),
        (("--tagged", "train.txt", "--dev", "characters.tsv"),
         "characters.tsv:1: the file tags characters, blanks among them, and the task words"),
    ):  # fmt: skip
        assert bertsmith("finetune", model, *arguments, "--plan-only") == 2
        assert told in capsys.readouterr().err
    # Characters without a blank among them are of the kind that has blanks.
    (tmp_path / "no-blanks.tsv").write_text("d\tO\np\tB-LOC\n")
    files_of_characters = ("--tagged", "characters.tsv", "--dev", "no-blanks.tsv")
    assert bertsmith("finetune", model, *files_of_characters, "--plan-only") == 0


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (False, "2 of 8 Dev questions have no answer, and none of the training questions: such"),
        (True, "2 of 8 training questions have no answer, and none of the Dev questions: how"),
    ],
)
def test_questions_without_an_answer_in_one_set_only_are_told(
    train: bool, told: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = squad(tmp_path / "a.json", 8, 1, some_impossible=train)
    second = squad(tmp_path / "b.json", 8, 2, some_impossible=not train)
    begin = ("finetune", model, "--max-tokens", "16", *SPANS, "--plan-only", "--squad")
    assert bertsmith(*begin, first, "--dev", second) == 0
    assert told in capsys.readouterr().out
    assert bertsmith(*begin, first, "--dev", first) == 0
    assert "have no answer" not in capsys.readouterr().out


def test_a_run_reads_other_files_by_the_columns_it_learned_from(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, run = KINDS["several labels"], tmp_path / "run"
    assert bertsmith("finetune", model, *kind.files(tmp_path), *RUN, "--out", run) == 0
    capsys.readouterr()
    asked = ("evaluate", run, "--texts", tmp_path / "dev.csv")
    assert bertsmith(*asked, *TEXTS, "--separator", ";") == 0
    whole = capsys.readouterr().out
    assert bertsmith(*asked) == 0
    told = capsys.readouterr().out
    added = "--text-columns words --label-column about --separator ';'"
    assert f"note: read as the model's own rows: {added}" in told
    assert "the model's own rows" not in whole
    assert score_lines(told.splitlines()) == score_lines(whole.splitlines())
    assert bertsmith(*asked, "--text-columns", "x") == 2
    assert "no column 'x', found 'words', 'about'" in capsys.readouterr().err


def test_pairs_are_scored_by_a_model_of_single_texts_with_a_note(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, run = KINDS["labels"], tmp_path / "run"
    assert bertsmith("finetune", model, *kind.files(tmp_path), *RUN, "--out", run) == 0
    capsys.readouterr()
    note = "note: the model learned from single texts (words), and reads pairs of texts here"
    others = tmp_path / "others.csv"
    others.write_text("words,more,about\nthe dog,my cat,beast\nhe likes,paris,place\n")
    asked = ("evaluate", run, "--texts", others, "--label-column", "about", "--text-columns")
    assert bertsmith(*asked, "words", "more") == 0
    assert note in " ".join(capsys.readouterr().out.split())
    assert bertsmith(*asked, "words") == 0
    assert "the model learned from" not in capsys.readouterr().out


def test_questions_whose_answer_no_window_holds_are_told_in_the_plan(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passage = "the dog likes my cat and he is in paris the dog my cat likes he"
    listed = [
        {"id": f"q{number}", "question": "is he ?", "is_impossible": False,
         "answers": [{"text": text, "answer_start": passage.index(text)}]}
        for number, text in enumerate(("dog", passage[:50], "my cat"))
    ]  # fmt: skip
    file = tmp_path / "train.json"
    file.write_text(json.dumps({"data": [{"paragraphs": [{"context": passage, "qas": listed}]}]}))
    files = ("--squad", file, "--dev", squad(tmp_path / "dev.json", 8, 2), *SPANS)
    asked = ("finetune", model, *files, "--max-tokens", "16", "--plan-only")
    assert bertsmith(*asked) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "training: 1 question of 3 ('q1' first) with an answer that no window holds whole: where "
        "they are learned, every window is taught to point at [CLS], which is no answer; where "
        "they are scored, they count"
    ) in told
    assert "Dev: " not in told


@pytest.mark.parametrize(
    ("renamed", "option"),
    [
        ("question", "question-column"), ("context", "passage-column"),
        ("answers", "answers-column"), ("id", "key-column"),
    ],
)  # fmt: skip
def test_questions_in_rows_name_the_option_of_each_column(
    renamed: str, option: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "1", "question": "is he ?", "context": "my dog",
           "answers": {"text": ["my"], "answer_start": [0]}}  # fmt: skip
    row[f"{renamed}_own"] = row.pop(renamed)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert bertsmith("finetune", model, "--squad", path, *SPANS, "--plan-only") == 2
    told = capsys.readouterr().err
    assert f"no column '{renamed}', found " in told
    assert f"name the right one with --{option}" in told
    assert (f"; did you mean '{renamed}_own'?" in told) is (renamed != "id")
    assert (f"--{option} ('' for none)" in told) is (renamed == "id")


def test_choices_are_scored_by_their_own_columns(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed, run = tmp_path / "own.csv", tmp_path / "run"
    text = swag(tmp_path / "swag.csv", 12, 1).read_text()
    renamed.write_text(text.replace("sent1,sent2,ending0", "begun,unread,ending0"))
    choices = ("ending0", "ending1", "ending2", "ending3")
    columns = ("--text-columns", "begun", "--choice-columns", *choices)
    begin = ("finetune", model, "--choices", renamed, "--dev", renamed, *columns, *RUN)
    assert bertsmith(*begin, "--epochs", 1, "--out", run) == 0
    capsys.readouterr()
    assert bertsmith("evaluate", run, "--choices", renamed) == 0
    assert "own rows: --text-columns begun --begun-column ''" in capsys.readouterr().out


def test_a_run_remembers_that_rows_have_no_header(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, run, named = tmp_path / "bare.csv", tmp_path / "run", tmp_path / "named.csv"
    _, *rows = texts(named, 12, 1).read_text().splitlines()
    bare.write_text("\n".join(rows) + "\n")
    columns = ("--text-columns", "1", "--label-column", "2")
    begin = ("finetune", model, "--texts", bare, "--dev", bare, *columns)
    assert bertsmith(*begin, *RUN, "--out", run) == 2
    assert "where it is none say --no-header" in capsys.readouterr().err
    assert bertsmith(*begin, "--no-header", *RUN, "--epochs", 1, "--out", run) == 0
    capsys.readouterr()
    for typed in ((), columns):
        assert bertsmith("evaluate", run, "--texts", bare, *typed) == 0
        told = capsys.readouterr().out
        assert "12 examples" in told
        assert "the model's own rows: --no-header" in told
    assert bertsmith("evaluate", run, "--texts", named, *TEXTS) == 0
    assert "12 examples" in capsys.readouterr().out
    assert bertsmith("predict", run, "--file", bare, "--jsonl") == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 12
    assert "note: the first row is read as one of them" in printed.err
    assert bertsmith("predict", run, "--file", named, "--columns", "words", "--jsonl") == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 12
    assert "the first row" not in printed.err


ROW = {"q": "the dog", "a": "my", "b": "he", "right": 1, "text": "cat", "label": "x"}


@pytest.mark.parametrize(
    ("option", "name", "columns", "typed", "added"),
    [
        ("texts", "a.jsonl", {"texts": ["q", "a"], "label": "right", "key": "", "separator": ","},
         {}, "--text-columns q a --label-column right"),
        ("texts", "a.jsonl", {"texts": ["q"], "label": "right"},
         {"label_column": "label"}, "--text-columns q"),
        ("texts", "a.jsonl", {"texts": ["text"], "label": "label", "key": "", "separator": ","},
         {}, ""),
        ("texts", "a.jsonl", {"texts": ["words"], "label": "right"}, {}, "--label-column right"),
        ("choices", "a.jsonl",
         {"text": "q", "begun": "", "choices": ["a", "b"], "label": "right", "first_number": 1},
         {}, "--text-columns q --begun-column '' --choice-columns a b --label-column right "
         "--first-choice 1"),
        ("choices", "a.jsonl", {"text": "q", "begun": "", "choices": ["a", "b"]},
         {"text_columns": ["text"]}, ""),
        ("squad", "a.jsonl", {"question": "q", "passage": "text", "answers": "answers", "key": ""},
         {}, "--question-column q --passage-column text --key-column ''"),
        ("squad", "a.jsonl", {"answers": "a", "start": "right"},
         {}, "--answers-column a --start-column right"),
        ("squad", "a.json", {"question": "q"}, {}, ""),
        ("tagged", "a.jsonl", {"words": "q", "sentence": "text", "tags": "a"},
         {}, "--word-column q --sentence-column text --tag-column a"),
        ("tagged", "a.jsonl", {"words": "word", "sentence": "sentence_id", "tags": "tag"}, {}, ""),
        ("tagged", "a.jsonl", {"words": "q", "tags": "a", "tag_names": ["O"], "document": ""},
         {}, "--word-column q --tag-column a --tag-names O"),
        ("tagged", "a.txt", {"words": "q", "tag_column": 3, "is_one_document": True},
         {}, "--tag-column 3 --one-document"),
        ("glue", "a.jsonl", {"texts": ["q"]}, {}, ""),
        ("texts", "a.jsonl", {}, {}, ""),
    ],
)  # fmt: skip
def test_what_is_typed_wins_and_columns_that_a_file_has_not_are_forgotten(
    option: str,
    name: str,
    columns: dict[str, object],
    typed: dict[str, object],
    added: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(ROW) + "\n")
    source = {option: str(path), **typed}
    assert shlex.join(typed_words(remembered(source, Learned(columns=columns)))) == added


def test_malformed_rows_of_glue_are_left_out_where_that_is_asked_for(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    glue = write_glue(tmp_path / "glue")
    with (glue / "SST-2" / "dev.tsv").open("a") as file:
        file.write("the dog\t2\n \t1\n")
    begin = ("finetune", model, "--glue", glue, "--task", "SST-2", "--plan-only")
    assert bertsmith(*begin) == 2
    assert "dev.tsv:23: ' ' has no token" in capsys.readouterr().err
    assert bertsmith(*begin, "--skip-malformed") == 0
    told = capsys.readouterr().out
    assert f"dev: 1 row left out: {glue}/SST-2/dev.tsv:22: label '2'" in told
    assert "Dev: 1 row without a token left out; the first: " in told
    assert "dev.tsv:23: ' ' has no token" in told


@pytest.mark.parametrize(
    ("options", "header", "row"),
    [
        (("--texts",), "text,label", "{},no"),
        (("--text-columns", "asked", "--choice-columns", "one", "two", "--choices"),
         "asked,one,two,label", "he,{},my,0"),
    ],
)  # fmt: skip
def test_rows_of_which_no_token_is_left_stop_before_training_or_are_left_out(
    options: tuple[str, ...], header: str, row: str, model: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "rows.csv"
    words = ("dog", "cat", "paris", "\u0301")  # an accent alone, which an uncased model strips
    last = len(words) + 1
    lines = [header, *(row.format(word) for word in words), row.format("the").replace("no", "yes")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    begin = ("finetune", model, *options, path, "--dev", path, "--max-tokens", "16", "--plan-only")
    assert bertsmith(*begin) == 2
    told = capsys.readouterr().err
    assert f"{path}:{last}: " in told
    assert "has no token: nothing in it can be read; mend it, or leave such rows out with" in told
    assert bertsmith(*begin, "--skip-malformed") == 0
    told = capsys.readouterr().out
    for which in ("training", "Dev"):
        assert f"{which}: 1 row without a token left out; the first: {path}:{last}" in told


def test_what_is_odd_in_glues_files_is_told_in_training_and_in_dev(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "STS-B"
    folder.mkdir()
    rows = ["0\tthe dog\tmy dog\t4.5", "1\tthe cat\tparis\t0.5", "1\tthe cat\tparis\t7"]
    lines = ["index\tsentence1\tsentence2\tscore", "0\tthe dog", *rows]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    begin = ("finetune", model, "--glue", tmp_path, "--task", "STS-B", "--max-tokens", "16")
    assert bertsmith(*begin, "--plan-only") == 0
    told = capsys.readouterr().out
    for split in ("train", "dev"):
        path = folder / f"{split}.tsv"
        assert f"{split}: 1 row left out: {path}:2: 2 columns, expected 4" in told
        assert f"1 row has the index of an earlier one, the first at {path}:5" in told
        assert f"1 score stands outside STS-B's scale of 0 to 5, the first, 7, at {path}:5" in told


@pytest.mark.parametrize(
    ("rows", "options"),
    [(False, ()), (True, ("--no-header", "--sentence-column", "1", "--word-column", "2"))],
)
def test_a_word_a_row_is_answered_in_its_sentences(
    rows: bool,
    options: tuple[str, ...],
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train, run = word_rows(tmp_path / "train.tsv", 8, 1), tmp_path / "run"
    header, *cells = train.read_text().replace(",", "\t").splitlines()
    lines = cells if rows else [header.replace("number", "sentence_id"), *cells]
    train.write_text("\n".join(lines) + "\n")
    typed = (*options, "--tag-column", "3") if rows else ()
    begin = ("finetune", model, "--tagged", train, "--dev", train, *typed, *RUN)
    assert bertsmith(*begin, "--epochs", 1, "--out", run) == 0
    capsys.readouterr()
    assert bertsmith("evaluate", run, "--tagged", train) == 0
    assert "8 examples" in capsys.readouterr().out
    assert bertsmith("predict", run, "--file", train, "--jsonl") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(each["words"]) for each in answers] == [4] * 8
    assert bertsmith("predict", run, "--file", train, "--keep", "word", "--jsonl") == 2
    assert "a table of a word a row, which has none of a name" in capsys.readouterr().err
    with train.open("a") as file:
        file.write("9\tparis\n")
    assert bertsmith("predict", run, "--file", train, "--jsonl") == 2
    assert "train.tsv:" in capsys.readouterr().err
    assert bertsmith("predict", run, "--file", train, "--skip-malformed", "--jsonl") == 0
    assert len(capsys.readouterr().out.splitlines()) == 8


@pytest.mark.parametrize(
    ("in_documents", "option", "told", "unit", "is_noted"),
    [
        (True, (), "12 examples in 3 sequences", "sequences", False),
        (True, ("--context", "sentence"), "12 examples of 6 tokens", "examples", False),
        (False, (), "12 examples of 6 tokens", "examples", True),
        (False, ("--one-document",), "12 examples in 4 sequences", "sequences", False),
    ],
)
def test_documents_are_read_together_where_they_are_marked_or_asked_for(
    in_documents: bool,
    option: tuple[str, ...],
    told: str,
    unit: str,
    is_noted: bool,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train = tagged(tmp_path / "a.txt", 12, 1, in_documents=in_documents)
    begin = ("finetune", model, "--tagged", train, "--dev", train, "--max-tokens", "24")
    assert bertsmith(*begin, *option, "--plan-only") == 0
    found = capsys.readouterr().out
    assert told in found
    assert f" of 16 {unit}: 3 epochs" in found
    assert ("no -DOCSTART- marks a document: each sentence is read alone" in found) is is_noted
