import io
import json
import sys

import pytest

from bertsmith.commands.json_lines import print_json

CONTENT = {"text": "서울은 [MASK]", "vector": [1.5, 0.25]}


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "ascii", "latin-1", "cp949"])
def test_every_encoding_gets_one_line_that_reads_back_the_same(monkeypatch, encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(CONTENT)
    stream.flush()
    line = raw.getvalue().decode(encoding)
    assert line.count("\n") == 1
    assert json.loads(line) == CONTENT
    assert ("서울은" in line) == (encoding.lower() in ("utf-8", "utf8"))
