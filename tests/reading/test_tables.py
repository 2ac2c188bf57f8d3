"""Rows of every format: the same rows, in order, and every mistake with its place."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertsmith.reading.tables import columns, rows

ROWS = [
    {"id": "7", "text": "the dog", "label": "yes"},
    {"id": "8", "text": 'he said "no", twice', "label": "no"},
    {"id": "9", "text": "", "label": "한국어"},
]


def write(path: Path) -> Path:
    suffix = path.suffix
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    if suffix == ".jsonl":
        text = "".join(json.dumps(row) + "\n" for row in ROWS)
    elif suffix == ".tsv":
        lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
        text = "".join("\t".join(line) + "\n" for line in lines)
    else:
        file = io.StringIO()
        writer = csv.DictWriter(file, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)
        text = file.getvalue()
    path.write_bytes(text.encode())
    return path


def values(path: Path, names, **options) -> list[tuple[object, ...]]:
    return [tuple(row.values[name] for name in names) for row in rows(path, names, **options)]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_every_format_gives_the_same_rows_in_order(suffix, tmp_path):
    path = write(tmp_path / f"a.{suffix}")
    assert columns(path) == ("id", "text", "label")
    assert values(path, ["label", "text"]) == [(row["label"], row["text"]) for row in ROWS]


def test_places_are_lines_and_in_parquet_rows(tmp_path):
    def places(name):
        return [row.place for row in rows(write(tmp_path / name), ["text"])]

    assert places("a.csv") == [f"{tmp_path}/a.csv:{line}" for line in (2, 3, 4)]
    assert places("a.jsonl") == [f"{tmp_path}/a.jsonl:{line}" for line in (1, 2, 3)]
    assert places("a.parquet") == [f"{tmp_path}/a.parquet: row {number}" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("gz", gzip.compress),
        ("xz", lzma.compress),
        ("bz2", bz2.compress),
        ("zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_a_compressed_file_is_read_by_the_name_before_the_ending(ending, compress, tmp_path):
    whole = write(tmp_path / "a.tsv")
    path = tmp_path / f"b.tsv.{ending}"
    path.write_bytes(compress(whole.read_bytes()))
    assert values(path, ["id", "text"]) == values(whole, ["id", "text"])


@pytest.mark.parametrize("name", ["a.txt", "a.text", "a"])
def test_plain_text_is_one_text_a_line_blank_ones_too(name, tmp_path):
    path = tmp_path / name
    path.write_bytes("\ufeffone\r\n\n\u2028 three\ta\nlast".encode())
    assert columns(path) == ("text",)
    assert values(path, ["text"]) == [("one",), ("",), ("\u2028 three\ta",), ("last",)]


def test_a_quote_is_an_ordinary_character_in_tsv(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"never closed\t1\n\na "b" c"\t2\n')
    assert values(path, ["text", "label"]) == [('"never closed', "1"), ('a "b" c"', "2")]


def test_a_quoted_field_holds_commas_lines_and_quotes_in_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\r\n1,"a, b\nc ""d"""\r\n\n2,e\r\n')
    found = list(rows(path, ["text"]))
    assert [row.values["text"] for row in found] == ['a, b\nc "d"', "e"]
    assert [row.place.rpartition(":")[2] for row in found] == ["2", "5"]


def test_a_field_longer_than_the_csv_modules_limit_is_read_and_the_limit_is_put_back(tmp_path):
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text(f"text\n{'x' * (before + 1)}\n")
    assert len(next(rows(path, ["text"])).text("text")) == before + 1
    assert csv.field_size_limit() == before


def test_without_a_header_columns_are_numbered_and_the_first_row_counts(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("gj04\t1\t\tOur friends\nks08\t0\t*\tWho\n")
    assert columns(path, has_header=False) == ("1", "2", "3", "4")
    assert values(path, ["4", "2"], has_header=False) == [("Our friends", "1"), ("Who", "0")]


def test_jsonl_and_parquet_keep_their_types(tmp_path):
    record = {"tags": ["a", "b"], "score": 1.5, "n": 3, "none": None}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    pq.write_table(pa.Table.from_pylist([record, record]), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        (row, *_) = rows(tmp_path / name, list(record))
        assert row.values == record
        assert row.text("none") == ""
        with pytest.raises(ValueError, match=r"1: column 'n' must hold text, found int 3"):
            row.text("n")


def test_an_unknown_column_is_named_at_once_with_the_nearest(tmp_path):
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        path = write(tmp_path / f"a.{suffix}")
        with pytest.raises(ValueError, match=r"column 'lable'; did you mean 'label'\? the columns"):
            rows(path, ["text", "lable"])
        with pytest.raises(ValueError, match="'zz'; the columns are 'id', 'text', 'label'"):
            rows(path, ["zz"])


def test_a_column_that_only_later_objects_have_is_a_column(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "1"}\n{"b": "2"}\n')
    assert columns(path) == ("a", "b")
    with pytest.raises(ValueError, match=r"a\.jsonl:2: no field 'a', found 'b'"):
        list(rows(path, ["a"]))


def test_lines_of_which_none_is_json_are_no_jsonl_even_where_somebody_listens(tmp_path):
    (tmp_path / "a.jsonl").write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match=r"a\.jsonl:1: not JSON"):
        rows(tmp_path / "a.jsonl", ["x"], on_malformed=[].append)


def test_two_columns_of_one_name_cannot_be_told_apart(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,text,id\na,b,c\n")
    with pytest.raises(ValueError, match="2 columns are named 'text'"):
        rows(path, ["text"])
    assert values(path, ["id"]) == [("c",)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"x\ty\n1\t2\n1\n", r"a\.tsv:3: 1 column, expected 2 as in the first row"),
        ("a.csv", b"x,y\n1,2\n\n1,2,3\n", r"a\.csv:4: 3 columns, expected 2"),
        ("a.csv", b'x,y\n1,"2\n3,4\n', r"a\.csv:2: not CSV \(unexpected end of data\)"),
        ("a.csv", b'x,y\n1,"2" 3\n', r"a\.csv:2: not CSV .*separate by tabs"),
        ("a.jsonl", b'{"x": 1}\n{"x": \n', r"a\.jsonl:2: not JSON"),
        ("a.jsonl", b'{"x": 1}\n[1]\n', r"a\.jsonl:2: expected a JSON object, found list"),
        ("a.jsonl", b'{"x": 1}\n{"x":' + b"[" * 100_000, r"a\.jsonl:2: not JSON"),
        ("a.jsonl", b'{"x": 1}\n{"x": %s}\n' % (b"9" * 5000), r"a\.jsonl:2: not JSON"),
        ("a.txt", b"one\n\xff\n", r"a\.txt:2: not UTF-8"),
        ("a.csv", b"x\n1\n\xff\n", r"a\.csv:3: not UTF-8"),
        ("a.txt", b"one\0two\n", r"a\.txt:1: NUL byte"),
        ("a.txt", gzip.compress(b"one\n" * 999, mtime=0)[:-9], "damaged or cut-short compression"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_by_file_and_line(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(rows(path, ["text" if name.endswith("txt") else "x"]))


@pytest.mark.parametrize(
    ("name", "content", "faults", "numbers"),
    [
        ("a.tsv", "x\ty\n1\n1\t2\n1\t2\t3\n4\t5\n", ("2: 1 column", "4: 3 columns"), [1, 3]),
        ("a.csv", "x,y\n1,2,3\n1,2\n\n4,5\n6\n", ("2: 3 columns", "6: 1 column"), [1, 2]),
        (
            "a.jsonl", '{"y": 0}\n{"x": "1"}\n{"x": "4"}\n{}\n', ("1: no field", "4: no field"),
            [1, 2],
        ),
        (
            "a.jsonl", '{"x": "1"}\n{"x": \n[1]\n{"x": "4"}\n',
            ("2: not JSON", "3: expected a JSON object"), [0, 3],
        ),
    ],
)  # fmt: skip
def test_malformed_rows_are_left_out_told_where_somebody_listens_and_counted(
    name, content, faults, numbers, tmp_path
):
    (tmp_path / name).write_text(content)
    told = []
    assert values(tmp_path / name, ["x"], on_malformed=told.append) == [("1",), ("4",)]
    assert len(told) == len(faults)
    for fault, start in zip(told, faults, strict=True):
        assert fault.startswith(f"{tmp_path / name}:{start}")
    found = rows(tmp_path / name, ["x"], on_malformed=told.append)
    assert [row.number for row in found] == numbers
    with pytest.raises(ValueError, match=r"; mend the row$"):
        values(tmp_path / name, ["x"])


def test_half_a_character_from_a_json_escape_is_no_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ab\\ud800"}\n')
    with pytest.raises(ValueError, match=r"jsonl:1: column 'text' holds half a character at .* 2"):
        next(rows(path, ["text"])).text("text")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_an_empty_file_has_no_rows(name, content, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="the file has no rows"):
        rows(tmp_path / name, ["text"])


def test_a_header_alone_and_an_empty_parquet_have_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(ValueError, match="the file has no rows"):
            rows(tmp_path / name, ["text"])


def test_what_is_no_table_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such file"):
        columns(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is no plain file"):
        columns(tmp_path)
    for name in ("a.docx", "a.xlsx"):
        (tmp_path / name).write_text("x")
    with pytest.raises(ValueError, match=r"a spreadsheet \(\.xlsx\) .* export the sheet as CSV"):
        columns(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match=r"unknown extension '\.docx', expected \.txt"):
        columns(tmp_path / "a.docx")
    for content in (b"PAR1 no", b"PAR1" + bytes(20) + b"PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.parquet: not a whole Parquet file"):
            columns(tmp_path / "a.parquet")
    with tarfile.open(tmp_path / "a.csv.tar", "w") as archive:
        archive.add(write(tmp_path / "a.csv"), "a.csv")
    with pytest.raises(ValueError, match="is an archive; rows are read from one file"):
        columns(tmp_path / "a.csv.tar")


def test_parquet_damaged_in_its_middle_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [f"{number} {'word ' * 50}" for number in range(2000)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=500, compression="zstd")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.parquet: damaged Parquet behind row \d+"):
        list(rows(path, ["text"]))


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
def test_progress_is_finer_than_the_blocks_that_are_read(name, tmp_path):
    path = tmp_path / name
    path.write_text("text\n" + "the dog\n" * 99_999)
    half = [row.bytes_read for row in rows(path, ["text"])][49_999]
    assert half == pytest.approx(path.stat().st_size / 2, rel=0.01)


def test_progress_ends_at_the_files_size(tmp_path):
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        path = write(tmp_path / name)
        positions = [row.bytes_read for row in rows(path, ["text"])]
        assert positions == sorted(positions)
        assert positions[-1] == path.stat().st_size


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "jsonl", "parquet"])
def test_rows_are_streamed_in_memory_that_does_not_grow_with_the_file(suffix, tmp_path):
    texts = [f"{number} {'word ' * 200}" for number in range(20_000)]  # 20 MB
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"text": texts}), path, row_group_size=1000)
    elif suffix == "jsonl":
        path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    else:
        path.write_text("\n".join(["text"] * (suffix != "txt") + texts))
    del texts
    tracemalloc.start()
    try:
        num_rows = sum(1 for _ in rows(path, ["text"]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert num_rows == 20_000
    # Blocks of a mebibyte, as bytes and as text, before and behind the line that straddles them.
    assert peak < 8 << 20


@pytest.mark.data
def test_official_files_with_their_quirks():
    data = Path(os.environ["BERTSMITH_DATA"])
    mrpc = rows(data / "glue/MRPC/dev.tsv.gz", ["Quality", "#1 String"])  # begins with a BOM
    assert sum(1 for _ in mrpc) == 408
    cola = rows(data / "glue/CoLA/dev.tsv.gz", ["4"], has_header=False)
    assert sum(1 for _ in cola) == 1043
    snli = rows(data / "nli_extra/snli_dev.csv.gz", ["premise", "label"])
    assert sum(1 for _ in snli) == 9831
    with pytest.raises(ValueError, match=r"QQP/train\.tsv\.gz:2: 5 columns, expected 6"):
        list(rows(data / "glue/QQP/train.tsv.gz", ["question1"]))
    told = []
    qqp = rows(data / "glue/QQP/train.tsv.gz", ["question1"], on_malformed=told.append)
    assert (sum(1 for _ in qqp), len(told)) == (17_355 - 1, 1)


def test_json_in_one_piece_is_told_what_rows_are_read_from(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"text": "a"}]', "utf-8")
    with pytest.raises(ValueError, match=r"a\.json: rows are read from JSONL.*an object a line"):
        columns(path)


def test_rows_break_where_a_line_feed_stands_and_nowhere_else(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"id\ttext\r\n1\tone\rrow\r\n2\ttwo\n")
    assert values(tmp_path / "a.tsv", ["text"]) == [("one\rrow",), ("two",)]
    (tmp_path / "a.csv").write_bytes(b'id,text\r\n1,"one\rrow"\r\n2,two\n3,th\rree\n')
    found = rows(tmp_path / "a.csv", ["text"])
    assert [next(found).values["text"] for _ in range(2)] == ["one\rrow", "two"]
    with pytest.raises(ValueError, match=r"a\.csv:4: a carriage return stands alone"):
        next(found)


def test_lines_that_end_in_returns_alone_are_told(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\r1,one\r2,two\r")
    with pytest.raises(ValueError, match=r"a\.csv: .*convert it first: tr '\\r' '\\n'"):
        columns(tmp_path / "a.csv")
