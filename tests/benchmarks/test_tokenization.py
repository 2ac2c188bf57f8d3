import argparse
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import tokenization
from benchmarks.tokenization import _peers, equal_ids
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer
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
        "encode_batch / bare", "encode_batch / bare_read", "ids / bare_fast",
    }  # fmt: skip


@pytest.mark.parametrize(("num_bytes", "expected"), [(1, 2), (9, 4), (1000, 4)])
def test_whole_documents_are_read_until_there_is_enough(num_bytes, expected, tmp_path):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n\nThree.\nFour.\n", encoding="utf-8")
    assert len(tokenization.read_sentences(tmp_path / "a.txt", num_bytes)) == expected


def test_other_encoders_are_compared_by_their_ids_without_special_tokens() -> None:
    tokenizer = Tokenizer((*SPECIAL_TOKENS, "a", "b", "##b"))
    texts = ["a b", "ab", ""]
    encoded = [tokenizer.encode(text).ids.tolist() for text in texts]
    whole = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in encoded]
    assert equal_ids(tokenizer, lambda _: whole, texts) == 1.0
    assert equal_ids(tokenizer, lambda _: [whole[0], whole[0], []], texts) == pytest.approx(2 / 3)


def test_an_encoder_takes_part_where_its_package_is_there(monkeypatch) -> None:
    tokenizer = Tokenizer((*SPECIAL_TOKENS, "a"))
    for name in ("tensorflow_text", "flash_tokenizer"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert _peers(tokenizer) == {}

    def made(vocabulary, do_lower_case):
        ids = [do_lower_case, len(Path(vocabulary).read_text(encoding="utf-8").split())]
        return lambda texts, **_: SimpleNamespace(input_ids=[ids for _ in texts])

    flash = SimpleNamespace(BertTokenizerFlash=made)
    monkeypatch.setitem(sys.modules, "flash_tokenizer", flash)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "flash_tokenizer" or None)
    assert _peers(tokenizer)["flash_tokenizer"](["a"]) == [[True, 6]]
