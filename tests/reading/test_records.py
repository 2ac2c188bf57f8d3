"""JSONL and Parquet: every error names file and line, or the column and what there was instead."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertsmith.reading import records


def texts(*blocks: str, field: str = "text") -> list[str]:
    return list(records.jsonl_texts(blocks, "a.jsonl", field, Counter()))


def test_records_may_straddle_blocks_and_the_last_needs_no_line_end():
    assert texts('{"text": "on', 'e"}\n\n{"te', 'xt": "둘"}') == ["one", "둘"]


def test_a_null_text_is_counted():
    skipped = Counter()
    lines = ['{"text": null}\n{"text": "a"}\n']
    assert list(records.jsonl_texts(lines, "a.jsonl", "text", skipped)) == ["a"]
    assert skipped == {records.NULLS: 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', r"a\.jsonl:3: not JSON .*column 13"),
        ("[1]", r"a\.jsonl:3: expected a JSON object, found list"),
        (f'{{"text": {"9" * 5000}}}', r"a\.jsonl:3: not JSON \(Exceeds the limit"),
        ('{"text": ' + "[" * 100_000, r"a\.jsonl:3: not JSON \(maximum recursion depth"),
        ('{"body": "a"}', r"a\.jsonl:3: no text field 'text', found 'body'; name .*--text-field"),
        ('{"text": 7}', r"a\.jsonl:3: field 'text' must hold a string, found int"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(line, message):
    with pytest.raises(ValueError, match=message):
        texts('{"text": "a"}\n\n', line, "\n")


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(records, "LONGEST_LINE", 100)
    with pytest.raises(ValueError, match=r"a\.jsonl:2: a line of over 100 characters"):
        texts('{"text": "a"}\n', *["x" * 60] * 3)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_parquet_rows_come_in_order_and_nulls_are_counted(kind, tmp_path):
    path = tmp_path / "a.parquet"
    rows = [f"Row {number}." for number in range(1000)] + [None]
    pq.write_table(pa.table({"id": range(1001), "body": pa.array(rows, kind)}), path)
    skipped = Counter()
    records.check_parquet(path, "body")
    assert list(records.parquet_texts(path, "body", skipped)) == rows[:-1]
    assert skipped == {records.NULLS: 1}


def test_parquet_without_the_column_or_damaged_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "body": ["a"]}), path)
    with pytest.raises(ValueError, match=r"a\.parquet: no text field 'text', found 'id', 'body'"):
        records.check_parquet(path, "text")
    with pytest.raises(ValueError, match=r"a\.parquet: column 'id' must hold strings, found int64"):
        records.check_parquet(path, "id")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"a\.parquet: not a whole Parquet file"):
        records.check_parquet(path, "body")


def test_a_parquet_file_that_is_damaged_in_its_middle_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"Row {number}." for number in range(1000)]}), path)
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)
    path.write_bytes(content)
    records.check_parquet(path, "text")
    with pytest.raises(ValueError, match=r"a\.parquet: not a whole Parquet file"):
        list(records.parquet_texts(path, "text", Counter()))
