"""The Hangul that a Korean text lacks gets rows last, and no other text's vocabulary changes."""

from __future__ import annotations

import lzma
import os
from collections import Counter
from pathlib import Path

import pytest

from bertsmith.commands import script_needs
from bertsmith.commands.preparation import vocabulary_size
from bertsmith.text.config import VocabularyConfig
from bertsmith.text.learn import LearnedVocabulary, learn
from bertsmith.text.rules import SPECIAL_TOKENS, TokenizerConfig
from bertsmith.text.syllables import lacking_hangul
from bertsmith.text.tokenizer import Tokenizer

RULES = TokenizerConfig(lowercase=True, strip_accents=False)
EVERYDAY = (
    "피곤해 보이네. 어제 늦게 잤니?",
    "밥 먹었어? 같이 먹자!",
    "너무 귀여워ㅋㅋㅋ 사진 또 보내줘.",
    "괜찮아, 천천히 와도 돼.",
    "주말에 뭐 했어? 난 푹 쉬었어.",
    "비 와서 옷이 다 젖었잖아ㅠㅠ",
    "커피 한 잔 할래?",
    "깜빡하고 지갑을 두고 왔네.",
    "걔 진짜 웃겨, 배꼽 빠지는 줄 알았어.",
    "떡볶이랑 튀김 사 왔는데 먹을래?",
    "감기 걸려서 콧물이 줄줄 나.",
)
ENCYCLOPAEDIC = """
서울특별시는 대한민국의 수도이자 최대 도시이다. 한강을 끼고 있으며 예로부터 정치, 경제, 문화의
중심지였다. 수학은 수, 양, 구조, 공간, 변화 등의 개념을 다루는 학문이다. 현대 수학은 형식 논리를
이용하여 추상적 구조를 연구한다. 지구는 태양으로부터 세 번째 행성이며, 달을 위성으로 둔다. 지구의
나이는 약 45억 년이다. 세종은 조선의 제4대 국왕이다. 훈민정음을 창제하고 과학 기술을 발전시켰으며
북방의 영토를 개척하였다. 왜 그러하였는가? 참으로 훌륭하다!
"""


def learned(text: str, rows: int, **choices: object) -> LearnedVocabulary:
    words = Tokenizer(SPECIAL_TOKENS, RULES).words(text)
    config = VocabularyConfig(vocab_size=rows, tokenizer=RULES, **choices)  # type: ignore[arg-type]
    return learn(Counter(word for word, _ in words), config)


def test_everyday_sentences_survive_a_vocabulary_of_a_small_encyclopaedic_text() -> None:
    text = ENCYCLOPAEDIC * 3
    rows = vocabulary_size(len(text.encode()), script_needs._LEAST_OF_HANGUL)
    without = Tokenizer(learned(text, rows, common_hangul=False).vocabulary, RULES)
    tokenizer = Tokenizer(learned(text, rows).vocabulary, RULES)
    for sentence in EVERYDAY:
        assert without.unk_id in without.encode(sentence).ids
        ids = tokenizer.encode(sentence).ids
        assert tokenizer.unk_id not in ids, sentence
        assert tokenizer.decode(ids).replace(" ", "") == sentence.replace(" ", "")


def test_the_rows_come_after_all_that_the_text_earned_and_displace_at_most_a_quarter() -> None:
    text = ENCYCLOPAEDIC * 3
    for rows in (800, 12_000):
        without = learned(text, rows, common_hangul=False)
        found = learned(text, rows)
        added = found.vocabulary[len(found.vocabulary) - 2 * found.num_hangul_added :]
        earned = found.vocabulary[: -len(added)]
        assert without.vocabulary[: len(earned)] == earned
        is_full = len(without.vocabulary) == rows
        assert 0 < len(added) <= (rows // 4 if is_full else rows - len(without.vocabulary))
        assert len(found.vocabulary) <= rows
        plain = added[: found.num_hangul_added]
        assert list(plain) == sorted(plain)
        assert [f"##{one}" for one in plain] == list(added[len(plain) :])
        assert not set(plain) & set(earned)


def test_all_2350_syllables_and_51_letters_are_common() -> None:
    lacking = lacking_hangul(Counter("가"), known=())
    assert sum("가" <= one <= "힣" for one in lacking) == 2_350
    assert (len(lacking), lacking[:2]) == (2_401, ["ㄱ", "ㄲ"])
    assert {"잤", "쌤", "ㅠ"} <= set(lacking)
    assert not {"펲", "갂"} & set(lacking)


def test_the_likeliest_by_their_letters_come_first() -> None:
    characters = Counter({"갔": 5, "자": 5, "뷁": 1})
    syllables = [one for one in lacking_hangul(characters, characters) if one >= "가"]
    assert syllables[:2] == ["가", "잤"]


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("she slept late and he is tired " * 9, {}),
        ("she slept late " * 9 + "잤", {}),
        (ENCYCLOPAEDIC * 3, {"alphabet_limit": 100}),
        (ENCYCLOPAEDIC * 3, {"tokenizer": TokenizerConfig()}),
    ],
)
def test_no_other_vocabulary_changes_by_a_byte(text: str, choices: dict[str, object]) -> None:
    config = {"tokenizer": RULES, "vocab_size": 2_000, **choices}
    tokenizer: TokenizerConfig = config["tokenizer"]  # type: ignore[assignment]
    counts = Counter(word for word, _ in Tokenizer(SPECIAL_TOKENS, tokenizer).words(text))
    found, without = (
        learn(counts, VocabularyConfig(**config, common_hangul=chosen))  # type: ignore[arg-type]
        for chosen in (True, False)
    )
    assert found == without
    assert found.num_hangul_added == 0


@pytest.mark.data
def test_the_first_megabyte_of_an_encyclopaedia_is_enough_for_everyday_sentences() -> None:
    folder = Path(os.environ["BERTSMITH_DATA"]) / "corpora/kowiki-2020"
    with lzma.open(next(folder.glob("*.xz")), "rt", encoding="utf-8") as file:
        text = file.read(400_000)
    found = learned(text, vocabulary_size(len(text.encode()), script_needs._LEAST_OF_HANGUL))
    tokenizer = Tokenizer(found.vocabulary, RULES)
    for sentence in EVERYDAY:
        assert tokenizer.unk_id not in tokenizer.encode(sentence).ids, sentence
