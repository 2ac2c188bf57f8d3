"""What ends a sentence and what does not, in English and Korean; and that nothing is lost."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertsmith.text.sentences import split_sentences

# Each entry is one paragraph as the list of its sentences.
ENGLISH = [
    ["Mr. Smith went to Washington, D.C. in 1990.", "Dr. No did not."],
    ["The U.S. Army paid $3.50 for it.", "It was cheap."],
    ["J. K. Rowling lives at No. 5 High St. in Edinburgh.", "She writes."],
    ["They met in the U.S.", "The talks failed."],
    ["It costs 3.14 dollars.", "Or 2.71."],
    ['He said "Stop!" and left.', '"Why?" she asked.', "Nobody knew."],
    ['"Go away."', '"I will not."', "(It rained.)", "We stayed."],
    ["“Go away.”", "‘Never!’", "He went."],
    [
        "See Fig. 3 and pp. 12 of Jones et al. 1990 for e.g. The Beatles.",
        "They split in Jan. 1970.",
    ],
    ["1. Introduction to things.", "2. The second of them."],
    ["He paused...", "Then he spoke.", "Well... perhaps not."],
    ["It was over . . . or so it seemed.", "It was not."],
    ["Really?!", "Yes!", "Is it so?", "It is."],
    ["Acme Inc. bought Foo Corp. for cash.", "It was large."],
    ["Born in 1900.", "In 1920 he left."],
    ["i like it.", "you do too.", "fine"],
    ["No stop at the end"],
]
KOREAN = [
    ["피곤해 보이네.", "어제 늦게 잤니?"],
    ["기계식 키보드는 무엇입니까?", "비싼 키보드예요!", "그렇군요."],
    ["그는 갔다.", "2020. 5. 3. 서울에서 열렸다.", "1.5배 늘었다."],
    ["존 F. 케네디는 대통령이다.", "Dr. 김은 의사다."],
    ['"잘 가." 라고 말했다.', "그는 '안녕!' 하고 웃었다.", "“가자.”", "모두 떠났다."],
    ["1. 서론을 쓴다.", "2. 본론을 쓴다."],
    ["음...", "글쎄요.", "모르겠어요…", "정말?"],
    ["그는 애플 Inc. 에서 일했다.", "He left in May.", "그 뒤 돌아왔다."],
]  # fmt: skip


@pytest.mark.parametrize("sentences", ENGLISH + KOREAN, ids=lambda sentences: sentences[0][:24])
def test_paragraph_splits_into_its_sentences(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize("sentences", KOREAN, ids=lambda sentences: sentences[0][:24])
def test_auto_finds_hangul_and_applies_the_korean_rules(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert split_sentences(text, "auto") == split_sentences(text, "ko")


def test_korean_sentences_split_where_the_blank_is_missing() -> None:
    sentences = ["그는 갔다.", "그리고 왔다!", "정말요?", "네."]
    assert split_sentences("".join(sentences)) == sentences
    assert split_sentences("가.나.다.라. 순이다.") == ["가.나.다.라.", "순이다."]


def test_full_width_stops_need_no_blank() -> None:
    assert split_sentences("これは本です。それはペンです。") == [
        "これは本です。",
        "それはペンです。",
    ]


def test_line_breaks_count_as_blanks() -> None:
    text = "He met Mr.\nSmith in\nLondon.\nThey talked."
    assert split_sentences(text) == ["He met Mr.\nSmith in\nLondon.", "They talked."]


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u00a0"])
def test_blank_text_has_no_sentences(blank: str) -> None:
    assert split_sentences(blank) == []


def test_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'fr'"):
        split_sentences("Oui.", "fr")  # type: ignore[arg-type]


PIECES = [
    *"aAbI다요라고9.!?…。\"'”)( \n\t\u00a0\u3000",
    *(blank * 25 for blank in " \t\u00a0\u3000"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
@example("Mr" + "\t" * 24 + ". He")
def test_no_character_but_blanks_is_lost(text: str) -> None:
    for language in ("auto", "en", "ko"):
        sentences = split_sentences(text, language)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize("piece", [".", "。", '."', ". ", "a. ", ".\t", ".)"])
def test_time_grows_in_proportion_to_the_text(piece: str) -> None:
    paragraph = piece * 50_000 + "a"
    started = time.process_time()
    split_sentences(paragraph)
    split_sentences(paragraph, "ko")
    assert time.process_time() - started < 1.0  # quadratic rules take several seconds and more


@pytest.mark.data
def test_tokenised_wikitext_splits_into_sentences_of_usual_length() -> None:
    path = Path(os.environ["BERTSMITH_DATA"]) / "corpora/wikitext-2/valid.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        paragraphs = [line for line in file if line.strip() and not line.startswith(" =")]
    sentences = [s for paragraph in paragraphs for s in split_sentences(paragraph)]
    words = sum(len(paragraph.split()) for paragraph in paragraphs)
    assert 20 < words / len(sentences) < 28  # English encyclopaedic prose: about 24 words
