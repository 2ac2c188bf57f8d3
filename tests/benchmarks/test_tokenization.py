import argparse

import pytest

from benchmarks import tokenization
from tests.checkpoints.tiny import tiny_tokenizer


def test_every_way_is_timed_in_every_round_on_the_same_sentences(tmp_path, monkeypatch):
    tiny_tokenizer().save(tmp_path / "vocab")
    (tmp_path / "a.txt").write_text("my dog is hairy .\n" * 30, encoding="utf-8")
    monkeypatch.setitem(tokenization.TEXTS, "en", ("a.txt", "vocab"))
    options = argparse.Namespace(data=tmp_path, max_mb=1.0, rounds=2, measure="en")
    row = tokenization.measure(options)
    assert (row["sentences"], row["equal_texts"]) == (30, 1.0)
    assert {len(rates) for rates in row["rates"].values()} == {2}
    assert set(row["share_of_bare"]) == {
        "encode_batch / bare", "encode_batch / bare_read", "ids / bare_fast", "corpus / bare_fast",
    }  # fmt: skip


@pytest.mark.parametrize(("num_bytes", "expected"), [(1, 2), (9, 4), (1000, 4)])
def test_whole_documents_are_read_until_there_is_enough(num_bytes, expected, tmp_path):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n\nThree.\nFour.\n", encoding="utf-8")
    assert len(tokenization.read_sentences(tmp_path / "a.txt", num_bytes)) == expected
