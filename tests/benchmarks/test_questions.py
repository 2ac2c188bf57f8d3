from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.questions import Cloze, Question, pose, read_clozes
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = "the dog cat was old it ran . ##s ##ran"
KOREAN_WORDS = "한강 학교 학교에서 ##은 ##도 ##에서 ##에 길다 공부 한 ##강은 도서 ##관 ."
ENGLISH = Tokenizer((*SPECIAL, *WORDS.split()))
KOREAN = Tokenizer(
    (*SPECIAL, *KOREAN_WORDS.split()),
    TokenizerConfig(lowercase=False, strip_accents=False),
)


def test_the_token_of_the_answer_is_hidden_and_the_rest_is_read() -> None:
    question = _posed("The [MASK] was old.", ["dog", "cat"])
    assert _tokens(question) == ["the", "[MASK]", "was", "old", "."]
    assert (question.place, question.num_left_out) == (1, 0)
    assert question.answers == {ENGLISH.id_of("dog"), ENGLISH.id_of("cat")}


def test_a_particle_is_hidden_as_a_piece_of_its_word() -> None:
    question = _posed("한강[MASK] 길다.", ["은", "도"], KOREAN)
    # The longest first piece wins, so `한 ##강은` is not how the vocabulary cuts `한강은`.
    assert _tokens(question, KOREAN) == ["한강", "[MASK]", "길다", "."]
    assert question.answers == {KOREAN.id_of("##은"), KOREAN.id_of("##도")}


def test_what_follows_a_hidden_stem_stays_a_piece() -> None:
    question = _posed("[MASK]에서 공부.", ["한강"], KOREAN)
    assert _tokens(question, KOREAN) == ["[MASK]", "##에서", "공부", "."]


def test_an_answer_that_melts_into_its_neighbour_is_left_out() -> None:
    assert pose(_cloze("[MASK]에서 공부.", ["학교"]), KOREAN, "ko") is None


def test_an_answer_of_several_tokens_is_left_out_and_counted() -> None:
    question = _posed("[MASK]에서 공부.", ["도서관", "한강", "학교"], KOREAN)
    assert (question.answers, question.num_left_out) == ({KOREAN.id_of("한강")}, 2)


def test_an_unknown_answer_is_left_out() -> None:
    assert pose(_cloze("The [MASK] was old.", ["elephant"]), ENGLISH, "en") is None


def test_an_answer_that_changes_the_cutting_around_it_is_left_out() -> None:
    words = "x a b ##a ##b ##c ##bc ##d ."
    tokenizer = Tokenizer((*SPECIAL, *words.split()))
    question = _posed("x[MASK]c .", ["a", "b", "d"], tokenizer)
    # x ##a ##c, but x ##bc; and x ##d ##c is cut like the first.
    assert question.answers == {tokenizer.id_of("##a"), tokenizer.id_of("##d")}
    assert question.num_left_out == 1


def test_a_window_ends_with_the_sentence_of_the_mask() -> None:
    question = _posed("The dog was old. It [MASK]. The cat ran.", ["ran"])
    assert question.place == 6
    beyond = ENGLISH.vocab_size
    assert question.window == (beyond, ENGLISH.id_of("it"), ENGLISH.id_of("."), beyond)
    assert len(question.token_ids) == 12


def test_a_line_that_is_no_cloze_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = '{"text": "a [MASK]", "answers": ["b"], "kind": "grammar"}'
    path.write_text(f"{good}\n{good.replace('[MASK]', 'b')}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: expected a text with one \[MASK\]"):
        read_clozes(path)


def _cloze(text: str, answers: list[str]) -> Cloze:
    return Cloze(text=text, answers=tuple(answers), kind="grammar")


def _posed(text: str, answers: list[str], tokenizer: Tokenizer = ENGLISH) -> Question:
    language = "ko" if tokenizer is KOREAN else "en"
    question = pose(_cloze(text, answers), tokenizer, language)
    assert question is not None
    return question


def _tokens(question: Question, tokenizer: Tokenizer = ENGLISH) -> list[str]:
    return [tokenizer.token_of(token) for token in question.token_ids.tolist()]
