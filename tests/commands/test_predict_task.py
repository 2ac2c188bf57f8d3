"""`predict RUN` answers every row of any file, in order, as the model alone would."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertsmith import cli
from bertsmith.commands import asked_questions, predict_task
from bertsmith.commands.predict_task import ask_task
from bertsmith.commands.predict_task_options import AskTask
from bertsmith.inference import Predictor
from bertsmith.model.task import TaskKind
from bertsmith.tasks.stored import Learned
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.checkpoints.tiny import VOCABULARY
from tests.tasks.answering import PASSAGE, TASKS, classification, spans, write_answering

PAIRS = [("the dog", "my cat ."), ("paris", "he likes"), ("a", "is")]
CONLL = "paris X\nlikes X\nmy X\n\ndog X\n\n-DOCSTART- X\n\nlondon X\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each kind, by its kind's name, and one that learned pairs."""
    folder = tmp_path_factory.mktemp("models")
    for kind, task in TASKS.items():
        write_answering(folder / kind, task)
    pairs = Learned(name="RTE", columns={"texts": ["first side", "second side"]})
    write_answering(folder / "pairs", classification(), pairs)
    write_answering(folder / "null", spans(with_null=True))
    write_answering(folder / "labels", classification("multi_label"))
    return folder


def asked(model: Path, *texts: str, **options: Any) -> AskTask:
    return AskTask(model=str(model), texts=texts, device="cpu", precision="fp32", **options)


def answers(run: AskTask, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    ask_task(run)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def write_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "second side", "first side"])
        writer.writerows([number, second, first] for number, (first, second) in enumerate(PAIRS))


def write_tsv(path: Path) -> None:
    rows = ["id\tsecond side\tfirst side"]
    rows += [f"{number}\t{second}\t{first}" for number, (first, second) in enumerate(PAIRS)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_jsonl(path: Path) -> None:
    rows = [{"first side": first, "second side": second, "id": number}
            for number, (first, second) in enumerate(PAIRS)]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_parquet(path: Path) -> None:
    columns = {"first side": [first for first, _ in PAIRS],
               "second side": [second for _, second in PAIRS],
               "id": list(range(len(PAIRS)))}  # fmt: skip
    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize("write", [write_csv, write_tsv, write_jsonl, write_parquet])
def test_tables_are_read_by_the_columns_that_were_learned(
    write: Callable[[Path], None],
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / f"질문.{write.__name__.removeprefix('write_')}"
    write(path)
    found = answers(asked(models / "pairs", file=(path,), keep=("id",), jsonl=True), capsys)
    expected = Predictor.load(models / "pairs", precision="fp32").classify(PAIRS)
    assert [str(answer["id"]) for answer in found] == ["0", "1", "2"]
    for answer, plainly in zip(found, expected, strict=True):
        assert (answer["first"], answer["second"]) == plainly.texts
        assert answer["label"] == plainly.labels[0]
        assert answer["probabilities"] == pytest.approx(dict(plainly.probabilities), abs=1e-5)
        assert answer["probability"] == max(answer["probabilities"].values())
    swapped = asked(
        models / "pairs", file=(path,), columns=("second side", "first side"), jsonl=True
    )
    assert [answer["first"] for answer in answers(swapped, capsys)] == [b for _, b in PAIRS]
    single = asked(models / "pairs", file=(path,), columns=("first side",), jsonl=True)
    ask_task(single)
    assert (
        "note: the model learned from pairs of texts (first side, second side), and reads single "
        "texts here"
    ) in capsys.readouterr().err


def test_lines_arguments_and_the_pipe_are_questions_too(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = "".join(f"{first}\t{second}\n" for first, second in PAIRS)
    (tmp_path / "a.txt").write_text(lines, encoding="utf-8")
    from_file = answers(
        asked(models / "pairs", *PAIRS[1], file=(tmp_path / "a.txt",), jsonl=True), capsys
    )
    assert [(each["first"], each["second"]) for each in from_file] == [PAIRS[1], *PAIRS]
    for piped, text in (
        ("lines", lines),
        ("jsonl", "".join(
            json.dumps({"first side": first, "second side": second, "x": 1}) + "\n"
            for first, second in PAIRS
        )),
    ):  # fmt: skip
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        found = answers(asked(models / "pairs", piped=piped, jsonl=True), capsys)
        assert [each["label"] for each in found] == [each["label"] for each in from_file[1:]]


@pytest.mark.parametrize(
    ("kind", "name", "content", "key", "expected"),
    [
        ("sequence_classification", "a.txt", "the dog\na\tb\n", "text", ["the dog", "a\tb"]),
        ("question_answering", "a.txt", f"is he ?\t{PASSAGE}\n", "question", ["is he ?"]),
        ("question_answering", "a.csv", f"context,question\n{PASSAGE},he\n", "question", ["he"]),
        ("multiple_choice", "a.txt", "he likes\tmy dog\tparis\n", "text", ["he likes"]),
        ("multiple_choice", "a.jsonl",
         '{"question": {"stem": "he", "choices": [{"text": "a", "label": "A"}, {"text": "is", '
         '"label": "B"}]}}\n', "choices", [["a", "is"]]),
        ("multiple_choice", "a.csv", "sent1,sent2,ending0,ending1,ending2,ending3\nhe,my,a,is,,\n",
         "choices", [["my a", "my is"]]),
        ("token_classification", "a.txt", "paris (london).\n", "text", ["paris (london)."]),
        ("token_classification", "a.conll", CONLL, "text", ["paris likes my", "dog", "london"]),
        ("token_classification", "a.jsonl", '{"tokens": ["my", "dog"]}\n{"tokens": ["paris"]}\n',
         "text", ["my dog", "paris"]),
        ("token_classification", "a.jsonl", '{"text": "my dog"}\n', "text", ["my dog"]),
    ],
)  # fmt: skip
def test_every_kind_is_read_from_the_files_it_has(
    kind: TaskKind, name: str, content: str, key: str, expected: list[object],
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = answers(asked(models / kind, file=(tmp_path / name,), jsonl=True), capsys)
    assert [answer[key] for answer in found] == expected


def test_a_document_is_tagged_as_one_whatever_the_window(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.conll").write_text(CONLL, encoding="utf-8")
    run = asked(models / "token_classification", file=(tmp_path / "a.conll",), jsonl=True)
    at_once = answers(run, capsys)
    monkeypatch.setattr(predict_task, "WINDOW", 1)
    one_by_one = answers(run, capsys)
    for answer, plainly in zip(one_by_one, at_once, strict=True):
        for word, other in zip(answer["words"], plainly["words"], strict=True):
            assert word == {**other, "probability": pytest.approx(other["probability"], abs=1e-5)}
    (tmp_path / "b.conll").write_text("dog X\n", encoding="utf-8")
    (alone,) = answers(
        asked(models / "token_classification", file=(tmp_path / "b.conll",), jsonl=True), capsys
    )
    sure = at_once[1]["words"][0]["probability"]
    assert alone["words"][0]["probability"] != pytest.approx(sure, abs=1e-3)


def test_a_row_that_cannot_be_read_has_a_fault_in_its_place(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("text,x\nthe dog,1\n,2\na\n\u200b,3\nparis,4\n", "utf-8")
    run = asked(models / "sequence_classification", file=(tmp_path / "a.csv",), jsonl=True)
    with pytest.raises(ValueError, match=r"a\.csv:4: 1 column, expected 2"):
        ask_task(run)
    assert capsys.readouterr().out == ""
    skipping = asked(
        models / "sequence_classification", file=(tmp_path / "a.csv",), skip_malformed=True,
        out=tmp_path / "out.csv",
    )  # fmt: skip
    ask_task(skipping)
    assert "3 of 5 have no answer; the first: " in capsys.readouterr().err
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == ["the dog", "", "", "", "paris"]
    assert [bool(row["label"]) for row in rows] == [True, False, False, False, True]
    faults = ["", "a.csv:3: column 'text' is empty", "a.csv:4: 1 column", "a.csv:5: ", ""]
    assert all(fault in row["fault"] for row, fault in zip(rows, faults, strict=True))
    assert set(rows[0]) == {"text", "label", "probability bad", "probability good",
                            "probability 나쁨", "num_unread", "fault"}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "texts", "num_records", "filled"),
    [
        ("token_classification", ("paris (dog)",), 4, ("word", "tag", "probability")),
        ("multiple_choice", ("he", "my dog", "a cat"), 1, ("choice", "answer", "probabilities")),
        ("null", ("is he ?", PASSAGE), 1, ("id", "probability", "no_answer_probability")),
        ("pairs", ("a", "b"), 1, ("first", "second", "label")),
    ],
)
def test_every_kind_has_its_columns_in_csv(
    kind: str, texts: tuple[str, ...], num_records: int, filled: tuple[str, ...],
    models: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ask_task(asked(models / kind, *texts, csv=True))
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == num_records
    assert all(row[name] for row in rows for name in filled)


@pytest.mark.parametrize("kind", ["sequence_classification", "pairs", "null", "multiple_choice"])
def test_a_person_gets_a_line_with_probabilities(
    kind: str, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"sequence_classification": ("the dog",), "null": ("is he ?", PASSAGE)}
    ask_task(
        asked(models / kind, *texts.get(kind, ("he", "my dog", "a cat")[: 2 + (kind[0] == "m")]))
    )
    assert "0." in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("kind", "texts", "shown"),
    [("labels", ("the dog",), 3), ("multiple_choice", ("he", "my dog", "a cat", "paris", "is"), 4)],
)
def test_what_is_likely_is_shown_as_far_as_asked_and_all_of_it_in_json(
    kind: str, texts: tuple[str, ...], shown: int,
    models: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model, printed = str(models / kind), []
    for more in ((), ("--top-k", "2"), ("--top-k", "9")):
        assert cli.main(["predict", model, *texts, "--precision", "fp32", *more]) == 0
        printed.append(capsys.readouterr().out.splitlines())
    assert [len(lines) for lines in printed] == [1, 1 + 2, 1 + shown]
    (found,) = answers(asked(models / kind, *texts, jsonl=True), capsys)
    shares = found["probabilities"]
    of_all = list(shares.values() if isinstance(shares, dict) else shares)
    told = sorted(of_all, reverse=True)
    assert len(told) == shown
    for line, share in zip(printed[2][1:], told, strict=True):
        assert f"{share:.4f}" in line.split()


def squad_json(path: Path, count: int) -> Path:
    questions = [{"id": f"q{number}", "question": "is he ?", "answers": []}
                 for number in range(count)]  # fmt: skip
    paragraph = {"context": PASSAGE, "qas": questions}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["question_answering", "null"])
def test_the_evaluators_files_hold_every_question(
    kind: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squad = squad_json(tmp_path / "dev.json", 3)
    out = tmp_path / "out"
    ask_task(asked(models / kind, squad=squad, out=out))
    files = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in out.iterdir()}
    names = {"predictions.json", "nbest_predictions.json"}
    assert set(files) == names | ({"null_odds.json"} if kind == "null" else set())
    (answer,) = Predictor.load(models / kind, precision="fp32").answer([("is he ?", PASSAGE)])
    for content in files.values():
        assert list(content) == ["q0", "q1", "q2"]
    assert files["predictions.json"]["q1"] == answer.answer
    nbest = files["nbest_predictions.json"]["q2"]
    assert [each["text"] for each in nbest] == [each.text for each in answer.found.candidates]
    assert set(nbest[0]) == {"text", "probability", "start_logit", "end_logit"}
    if kind == "null":
        assert files["null_odds.json"]["q0"] == pytest.approx(answer.found.null_odds, abs=1e-4)
    with pytest.raises(ValueError, match="out exists: name another, or replace it with --force"):
        ask_task(asked(models / kind, squad=squad, out=out))


@pytest.mark.parametrize("kind", ["question_answering", "null"])
def test_a_question_of_nothing_is_answered_as_evaluate_does_and_told(
    kind: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squad, out, scored = squad_json(tmp_path / "dev.json", 3), tmp_path / "out", tmp_path / "scored"
    content = json.loads(squad.read_text(encoding="utf-8"))
    (paragraph,) = content["data"][0]["paragraphs"]
    paragraph["qas"][1]["question"] = "\u200b"
    blank = {"context": " ", "qas": [{"id": "blank", "question": "is he ?", "answers": []}]}
    content["data"].append({"paragraphs": [blank]})
    squad.write_text(json.dumps(content), encoding="utf-8")
    ask_task(asked(models / kind, squad=squad, out=out))
    told = capsys.readouterr().err
    assert "2 of 4 are answered by what else is there; the first: " in told
    assert f"{squad}: data[0].paragraphs[0].qas[1]: '\\u200b' has no token" in told
    options = ("--squad", squad, "--out", scored, "--precision", "fp32", "--device", "cpu")
    assert cli.main(["evaluate", *map(str, (models / kind, *options))]) == 0
    files, expected = (
        {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()}
        for folder in (out, scored)
    )
    assert list(files["predictions.json"]) == ["q0", "q1", "q2", "blank"]
    assert files["predictions.json"] == expected["predictions.json"]
    assert files.keys() == expected.keys()
    for key, listed in files["nbest_predictions.json"].items():
        others = expected["nbest_predictions.json"][key]
        assert [each["text"] for each in listed] == [each["text"] for each in others]
    if kind == "null":
        assert files["null_odds.json"] == pytest.approx(expected["null_odds.json"], abs=1e-4)
    else:
        assert files["predictions.json"]["q1"] in PASSAGE
        assert files["predictions.json"]["q1"]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("pairs", {"texts": ("a", "b", "c")}, "3 texts, expected 2"),
        ("pairs", {"texts": ("a", " ")}, "column 'second side' is empty"),
        ("pairs", {"columns": ("a", "b", "c"), "texts": ("a",)}, "one column of texts, or two"),
        ("pairs", {"file": (Path("none.csv"),)}, "none.csv: no such file"),
        ("pairs", {"file": (Path("."),)}, "is a directory: name a file"),
        ("pairs", {"file": (Path("a.csv"),)},
         "a.csv: no column 'first side'; did you mean 'first_side'"),
        ("pairs", {"file": (Path("a.txt"),), "keep": ("id",)}, "plain text, which has none"),
        ("multiple_choice", {"squad": Path("a.csv"), "out": Path("o")},
         "learned MultipleChoice, and was asked for SpanAnswering"),
        ("null", {"squad": Path("a.csv"), "out": Path("o")},
         r"a\.csv is not SQuAD's \.json: answer its rows with --file"),
        ("pairs", {"null_threshold": 0.0, "texts": ("a", "b")}, "was asked for SpanAnswering"),
        ("null", {"squad": Path("a.csv"), "out": Path("a.txt")}, "a.txt is a file"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_before_the_first_answer(
    kind: str, options: dict[str, Any], message: str,
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("first_side,other\na,b\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("a\tb\n", encoding="utf-8")
    texts = options.pop("texts", ())
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ask_task(asked(models / kind, *texts, jsonl="out" not in options, **options))
    assert capsys.readouterr().out == ""


def test_a_run_that_was_converted_answers_as_before(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = models / "pairs", tmp_path / "converted"
    assert cli.main(["convert", str(first), str(second), "--to", "hugging-face"]) == 0
    assert (second / "task.json").read_bytes() == (first / "task.json").read_bytes()
    capsys.readouterr()
    for model in (first, second):
        arguments = ["predict", str(model), "the dog", "my cat", "--device", "cpu", "--jsonl"]
        assert cli.main([*arguments, "--precision", "fp32"]) == 0
    of_first, of_second = capsys.readouterr().out.splitlines()
    assert of_first == of_second
    without = ["convert", str(first), str(tmp_path / "bare"), "--to", "hugging-face"]
    assert cli.main([*without, "--without-head"]) == 0
    assert not (tmp_path / "bare" / "task.json").exists()


def test_a_model_of_the_hub_says_what_is_assumed(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(models / "pairs", tmp_path / "hub")
    (tmp_path / "hub" / "task.json").unlink()
    ask_task(asked(tmp_path / "hub", "the dog", "a cat"))
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "no task.json says how examples are read; assumed" in captured.err
    assert "assumed to read texts one by one: for pairs name two --columns" in captured.err
    ask_task(asked(tmp_path / "hub", "the dog", "a cat", columns=("a", "b")))
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "one by one" not in captured.err


def test_what_was_cut_is_counted(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask_task(asked(models / "pairs", "dog " * 40, "a"))
    told = "1 of 1 were longer than the 16 tokens that the task reads: their end was not read"
    assert told in capsys.readouterr().err
    ask_task(asked(models / "null", "my cat is a dog was", PASSAGE))
    assert "the 4 tokens that a question may have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "num_texts"),
    [("sequence_classification", 1), ("token_classification", 1), ("multiple_choice", 3),
     ("question_answering", 2)],
)  # fmt: skip
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_decomposed_hangul_is_named(
    kind: TaskKind,
    num_texts: int,
    form: Literal["NFC", "NFD"],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizer = Tokenizer([*VOCABULARY[:-1], "개"], TokenizerConfig(strip_accents=False))
    write_answering(tmp_path / "m", TASKS[kind])
    tokenizer.save(tmp_path / "m")
    ask_task(asked(tmp_path / "m", *[unicodedata.normalize(form, "개 dog")] * num_texts))
    told = f"{num_texts} of the {num_texts} texts that were read hold Hangul that is decomposed"
    assert capsys.readouterr().err.count(told) == (form == "NFD")


def test_memory_is_bounded_by_the_window_and_not_by_the_file(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At most two windows of rows are read before answers to the first of them are written."""
    count, window = 300, 16
    with (tmp_path / "a.txt").open("w", encoding="utf-8") as file:
        file.writelines(f"the dog {'a ' * (number % 7)}\n" for number in range(count))
    sizes: list[int] = []
    answer = predict_task.answered

    def watched(*arguments: Any) -> Any:
        questions = arguments[0]
        for number, found in enumerate(answer(*arguments)):
            sizes.append(questions.num_asked - number)
            yield found

    monkeypatch.setattr(predict_task, "answered", watched)
    monkeypatch.setattr(predict_task, "WINDOW", window)
    run = asked(models / "sequence_classification", file=(tmp_path / "a.txt",), jsonl=True)
    found = answers(run, capsys)
    assert [each["text"].count("a") for each in found] == [n % 7 for n in range(count)]
    assert max(sizes) <= window
    monkeypatch.setattr(asked_questions, "_MOST_CHARACTERS", 30)
    monkeypatch.setattr(predict_task, "WINDOW", 4096)
    sizes.clear()
    assert len(answers(run, capsys)) == count
    assert max(sizes) <= 4
