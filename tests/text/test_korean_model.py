"""The Korean model's own vocabulary, learned from an encyclopaedia, spells how people talk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.text.tokenizer import Tokenizer

MINI_KO = Path(__file__).parents[2] / "models" / "mini-ko"


@pytest.mark.parametrize(
    "text",
    [
        "피곤해 보이네. 어제 늦게 잤니?",
        "어제 늦게 잤어?",
        "어쩐지 피곤해 보이더라.",
        "밥 먹었니? 응, 방금 먹었어.",
        "왜 그렇게 웃니, 뭐 재밌는 일 있어?",
        "진짜 웃겼다 ㅋㅋ 눈물 났어 ㅠㅠ",
    ],
)
def test_colloquial_sentences_survive_encoding_and_decoding(text: str) -> None:
    tokenizer = Tokenizer.load(MINI_KO)
    ids = tokenizer.encode(text).ids
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == text
