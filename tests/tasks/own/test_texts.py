"""Texts and labels come out of any file of rows as they stand there, or the fault is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertsmith.tasks.classify import LabelScheme, Problem, TextExample
from bertsmith.tasks.own.files import FileOptions
from bertsmith.tasks.own.texts import TextColumns, contents, read, require_learned, summary
from tests.tasks.own.written import hub_parquet_at, lines_at, real, rows_at

SKIP = FileOptions(skip_malformed=True)
PAIR = TextColumns(texts=("premise", "hypothesis"))
TOPICS = TextColumns(problem="multi_label", separator="|")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_pairs_are_found_by_name_in_every_format(tmp_path: Path, name: str) -> None:
    rows = [{"label": "yes", "hypothesis": "b", "premise": "a"},
            {"label": "no", "hypothesis": "d", "premise": "c"}]  # fmt: skip
    path = tmp_path / name
    if path.suffix in (".jsonl", ".parquet"):
        rows_at(path, *rows)
    else:
        between = "," if path.suffix == ".csv" else "\t"
        header = "\ufeff" + between.join(rows[0])
        lines_at(path, header, *(between.join(row.values()) for row in rows))
    examples = read(path, PAIR).examples
    assert [(each.texts, each.labels) for each in examples] == [
        (("a", "b"), ("yes",)),
        (("c", "d"), ("no",)),
    ]


@pytest.mark.parametrize(
    ("value", "problem", "labels"),
    [
        (True, "single_label", ("true",)),
        (7, "single_label", ("7",)),
        (" spam ", "single_label", ("spam",)),
        (["b", "a", "b"], "multi_label", ("b", "a")),
        ([], "multi_label", ()),
        (2.5, "regression", ("2.5",)),
        ("2.5", "regression", ("2.5",)),
    ],
)
def test_labels_are_spelt_as_text(
    tmp_path: Path, value: object, problem: Problem, labels: tuple[str, ...]
) -> None:
    path = rows_at(tmp_path / "a.jsonl", {"text": "a", "label": value})
    (example,) = read(path, TextColumns(problem=problem)).examples
    assert example.labels == labels


def test_the_spelling_of_booleans_and_of_mixed_kinds_is_told(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": label} for label in (True, 1, "x")]
    notes = read(rows_at(tmp_path / "a.jsonl", *rows), TextColumns()).notes
    assert notes == (
        "labels that are booleans are spelt true and false",
        "labels of several kinds are told apart by their spelling: 1 booleans, 1 numbers, 1 texts",
    )


def test_several_labels_stand_in_one_field_of_a_separated_file(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.tsv", "text\tlabel", "a\tx | y", "b\t", "c\ty")
    assert [each.labels for each in read(path, TOPICS).examples] == [("x", "y"), (), ("y",)]


def test_names_in_the_hubs_parquet_are_the_labels(tmp_path: Path) -> None:
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": -1}, {"text": "c", "label": 0}]
    file = read(hub_parquet_at(tmp_path / "a.parquet", features, rows), TextColumns())
    assert [each.labels for each in file.examples] == [("pos",), ("neg",)]
    assert file.left_out == (f"{file.path}: row 2: marked as unlabelled (-1)",)
    assert file.notes == ("numbers are labels by the file's own names: neg, pos",)
    features["label"]["names"] = ["neg"]
    with pytest.raises(ValueError, match="row 1: label 1 has no name; the file names 0 to 0"):
        read(hub_parquet_at(tmp_path / "b.parquet", features, rows), TextColumns())


def test_texts_to_predict_on_have_no_labels(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.txt", "one", "two")
    assert [each.labels for each in read(path, TextColumns(label=None)).examples] == [None, None]


def test_columns_without_a_header_are_numbered(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.tsv", "a\tx", "b\ty")
    columns = TextColumns(texts=("1",), label="2")
    file = read(path, columns, FileOptions(has_header=False))
    assert [(each.texts, each.labels) for each in file.examples] == [
        (("a",), ("x",)),
        (("b",), ("y",)),
    ]


def test_empty_texts_are_left_out_and_told(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.tsv", "text\tlabel", "a\tx", " \tx", "\u200b\ufffd\ty", "b\ty")
    file = read(path, TextColumns())
    assert [each.texts for each in file.examples] == [("a",), ("b",)]
    assert file.left_out == tuple(f"{path}:{line}: column 'text' is empty" for line in (3, 4))
    lines = summary(file, LabelScheme.of(file.examples)).lines()
    assert lines[:2] == [f"{path}: 2 examples", "x 1 (50.0%), y 1 (50.0%)"]
    assert lines[-3:] == ["2 left out:", *(f"  {fault}" for fault in file.left_out)]
    with pytest.raises(ValueError, match=r"no example in it; 1 row was left out, .*:2: column"):
        read(lines_at(path, "text\tlabel", "\tx"), TextColumns())


MALFORMED: list[tuple[str, TextColumns, str]] = [
    ('{"text": "b"}', TextColumns(), "a.jsonl:2: no field 'label'"),
    ('{"text": "b", "label": null}', TextColumns(), "a.jsonl:2: no label"),
    ('{"text": "b", "label": " "}', TextColumns(), "a.jsonl:2: the label is empty"),
    ('{"text": "b", "label": {}}', TextColumns(), "a label is text, a number or a boolean"),
    ('{"text": "b", "label": NaN}', TextColumns(), "a.jsonl:2: a label is text"),
    ('{"text": "b", "label": ["x"]}', TextColumns(), "take --problem multi_label"),
    ('{"text": "b", "label": "x"}', TextColumns(problem="regression"), "'x' is no number"),
    ('{"text": 3, "label": "1"}', TextColumns(), "column 'text' must hold text, found int"),
    ('{"text": "b", "label": "\\ud800"}', TextColumns(), "the label holds half a character"),
]


@pytest.mark.parametrize(("line", "columns", "message"), MALFORMED)
def test_a_broken_row_is_refused_with_its_line_or_left_out_and_told(
    tmp_path: Path, line: str, columns: TextColumns, message: str
) -> None:
    path = lines_at(tmp_path / "a.jsonl", '{"text": "a", "label": "1"}', line)
    with pytest.raises(ValueError, match=message) as error:
        read(path, columns)
    assert "--skip-malformed" in str(error.value)
    file = read(path, columns, SKIP)
    assert (len(file.examples), len(file.left_out)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", b"text,lable\na,x\n", TextColumns(), "no column 'label'; did you mean 'lable'"),
        ("a.csv", b"text,label\na,x,y\n", TextColumns(), "a.csv:2: 3 columns, expected 2"),
        ("a.csv", b"text,label\n\xb0\xa1,x\n", TextColumns(), "a.csv:2: not UTF-8"),
        ("a.jsonl", b'{"text": "a", "label": "x"}\n', TOPICS, "expected a list of labels"),
        ("a.tsv", b"text\tlabel\na\tx||y\n", TOPICS, "a.tsv:2: the label is empty"),
        ("a.tsv", b"id\ttext\tlabel\n7\ta\tx\n7\tb\tx\n", TextColumns(key="id"),
         r"a.tsv:3: id '7' stands at .*a.tsv:2 too"),
        ("a.json", b"[]", TextColumns(), "rows are read from JSONL, not from JSON"),
    ],
)  # fmt: skip
def test_other_files_are_refused(
    tmp_path: Path, name: str, content: bytes, columns: TextColumns, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, columns)


@pytest.mark.parametrize("fields", [{"texts": ()}, {"texts": ("a", "a")}, {"separator": ""}])
def test_columns_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"texts are one column|separator must"):
        TextColumns(**fields)


def _example(label: str, *texts: str, line: int = 1) -> TextExample:
    return TextExample(texts=texts, labels=(label,), place=f"dev.csv:{line}")


def test_labels_of_dev_that_were_not_learned_are_counted_and_the_nearest_is_named() -> None:
    scheme = LabelScheme(("negative", "neutral"))
    examples = [_example("neutral", "a"), _example("neutal", "b", line=7), _example("x", "c")]
    with pytest.raises(ValueError, match=r"dev.csv:7: label 'neutal' and 1 other .*\(2 in all\)"):
        require_learned(examples, scheme)
    with pytest.raises(ValueError, match=r"did you mean 'neutral'\? Only labels of"):
        require_learned(examples, scheme)
    with pytest.raises(ValueError, match=r"learned: negative, neutral\. Only labels of"):
        require_learned(examples[2:], scheme)
    require_learned(examples[:1], scheme)
    require_learned([_example("2.5", "a")], LabelScheme(("score",), "regression"))


def test_repeated_texts_are_one_content_and_told(tmp_path: Path) -> None:
    path = lines_at(
        tmp_path / "a.csv", "premise,hypothesis,label", "A  cat,b,x", "b,a cat,y", "b,a cat,y"
    )
    file = read(path, PAIR)
    assert len(set(contents(file.examples))) == 1
    notes = summary(file, None).notes
    assert notes == ("2 texts occur before, 1 with another label there",)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_ids_that_stand_twice_are_told_where_nothing_is_said_of_them(
    tmp_path: Path, name: str
) -> None:
    ids = ["7", "8", "7", "7"]
    records = [{"id": id, "text": f"t{id}", "label": "x"} for id in ids]
    path = tmp_path / name
    if path.suffix in (".jsonl", ".parquet"):
        rows_at(path, *records)
    else:
        between = "," if path.suffix == ".csv" else "\t"
        lines_at(path, *map(between.join, [records[0], *(each.values() for each in records)]))
    third = f"{path}: row 3" if name == "a.parquet" else f"{path}:{3 if name == 'a.jsonl' else 4}"
    file = read(path, TextColumns())
    assert len(file.examples) == 4
    assert file.notes == (f"2 rows have the id of an earlier one, the first at {third}",)
    with pytest.raises(ValueError, match="id '7' stands at"):
        read(path, TextColumns(key="id"))


def test_a_row_of_jsonl_needs_no_id(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows_at(path, {"idx": 1, "text": "a", "label": "x"}, *[{"text": "b", "label": "y"}] * 2)
    other = lines_at(tmp_path / "a.csv", "id,text,id,label", "1,a,1,x", "1,b,1,y")
    assert read(other, TextColumns()).notes == ()  # which of the two it is nobody knows
    file = read(path, TextColumns())
    assert (len(file.examples), file.notes) == (3, ())


def test_nearly_as_many_labels_as_examples_are_told(tmp_path: Path) -> None:
    rows = [{"text": f"a {number}", "label": number} for number in range(30)]
    examples = read(rows_at(tmp_path / "a.jsonl", *rows), TextColumns())
    (note,) = summary(examples, LabelScheme.of(examples.examples)).notes
    assert note.startswith("30 labels for 30 examples: is this the column of labels?")
    scheme = LabelScheme.of(examples.examples[:29])
    with pytest.raises(ValueError, match=r"a\.jsonl:30: label '29'"):
        summary(examples, scheme)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "columns", "count", "num_left_out", "labels"),
    [
        ("korean/nsmc/dev.tsv.gz", TextColumns(texts=("document",), key="id"), 19_999, 1, "0 1"),
        ("korean/kornli/xnli.dev.ko.tsv.gz",
         TextColumns(texts=("sentence1", "sentence2"), label="gold_label"), 2_490, 0,
         "contradiction entailment neutral"),
        ("korean/korsts/sts-train.tsv.gz",
         TextColumns(texts=("sentence1", "sentence2"), label="score", problem="regression"),
         5_749, 0, "score"),
        ("nli_extra/sick_train.csv.gz", PAIR, 9_500, 0, "contradiction entailment neutral"),
        ("nli_extra/snli_dev.csv.gz", PAIR, 9_831, 0, "contradiction entailment neutral"),
    ],
)  # fmt: skip
def test_the_real_sets_are_read_whole(
    name: str, columns: TextColumns, count: int, num_left_out: int, labels: str
) -> None:
    file = read(real(name), columns)
    assert (len(file.examples), len(file.left_out)) == (count, num_left_out)
    scheme = LabelScheme.of(file.examples, columns.problem)
    assert scheme.names == tuple(labels.split())
    assert summary(file, scheme).num_examples == count


def test_rows_over_several_lines_are_told_since_a_stray_quote_makes_them(tmp_path: Path) -> None:
    lines = ["text,label", "a,x", '"b,x', "c,x", 'd",y', '"e\nf",y', "g,y"]
    file = read(lines_at(tmp_path / "a.csv", *lines), TextColumns())
    assert [each.texts for each in file.examples] == [("a",), ("b,x\nc,x\nd",), ("e\nf",), ("g",)]
    (note,) = file.notes
    assert note.startswith(
        f"2 rows go on over several lines, the longest, at {tmp_path / 'a.csv'}:3, over 3: "
    )
