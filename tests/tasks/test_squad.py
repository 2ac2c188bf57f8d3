"""Windows are the original's, and point at the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertsmith.tasks.squad import SquadConfig, encode
from bertsmith.text.tokenizer import Tokenizer
from tests.tasks.passages import PASSAGE, SMALL, passage_tokenizer, question


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return passage_tokenizer()


def test_windows_hold_question_and_passage_and_point_at_the_answer(tokenizer: Tokenizer) -> None:
    encoded = encode([question("a", "Who won the prize?", "Nobel Prize")], tokenizer, SMALL)
    tokens = tokenizer.tokenize(PASSAGE)
    assert len(encoded.windows) > 2
    answered = []
    for item, window, target in zip(
        encoded.labelled.items, encoded.windows, encoded.labelled.targets, strict=True
    ):
        read = [tokenizer.vocabulary[id] for id in item.token_ids]
        start, end = window.window.start, window.window.end
        assert read == ["[CLS]", *tokenizer.tokenize("Who won the prize?"), "[SEP]",
                        *tokens[start:end], "[SEP]"]  # fmt: skip
        assert len(read) <= SMALL.max_tokens
        assert item.segment_ids.tolist() == [0] * window.offset + [1] * (end - start + 1)
        first, last = target
        answered.append(read[first : last + 1])
    assert ["nobel", "prize"] in answered
    assert all(each in (["nobel", "prize"], ["[CLS]"]) for each in answered)
    starts = [window.window.start for window in encoded.windows]
    assert np.diff(starts).tolist() == [SMALL.doc_stride] * (len(starts) - 1)


def test_an_answer_that_begins_inside_a_word_takes_the_pieces_it_touches(
    tokenizer: Tokenizer,
) -> None:
    wide = SquadConfig(max_tokens=100, doc_stride=20)
    encoded = encode([question("a", "When?", "1867")], tokenizer, wide)
    (item,), ((first, last),) = encoded.labelled.items, encoded.labelled.targets
    read = [tokenizer.vocabulary[id] for id in item.token_ids[first : last + 1]]
    assert read == ["18", "##67"]


def test_long_questions_are_cut_and_empty_ones_asked_and_both_are_counted(
    tokenizer: Tokenizer,
) -> None:
    encoded = encode([question("a", "who " * 20)], tokenizer, SMALL)
    assert encoded.num_cut_questions == 1
    assert {window.offset for window in encoded.windows} == {SMALL.max_question_tokens + 2}
    empty = encode([question("b", "\u200b")], tokenizer, SMALL)
    assert {window.offset for window in empty.windows} == {2}
    assert empty.notes == ("1 question of 1 without a word: the passage alone is read",)


def test_answers_that_no_window_holds_are_counted_and_the_first_is_named(
    tokenizer: Tokenizer,
) -> None:
    longest = "(1867-1934) won the Nobel Prize twice: in physics, and in chemistry"
    questions = [
        question("held", "Who?", "Nobel Prize"),
        question("too long", "Who?", longest),
        question("none", "Who?"),
        question("second", "Who?", longest, "Nobel Prize"),
    ]
    for with_null, learned in ((True, "to have no answer"), (False, "to point at [CLS]")):
        encoded = encode(questions, tokenizer, replace(SMALL, with_null=with_null))
        assert list(encoded.unheld) == ["too long", "second"]
        (note,) = encoded.notes
        assert note.startswith("2 questions of 4 ('too long' first) with an answer that no window ")
        assert f"every window is taught {learned}" in note
    assert encode(questions[:1], tokenizer, SMALL).notes == ()


def test_an_answer_across_the_ends_of_all_windows_is_held_by_none(tokenizer: Tokenizer) -> None:
    apart = SquadConfig(max_tokens=20, doc_stride=11, max_question_tokens=6)
    tokens = tokenizer.encode_batch([PASSAGE], add_special_tokens=False)[0]
    across = PASSAGE[tokens.spans[10][0] : tokens.spans[12][1]]
    asked = [question("across", "who in the prize in", across)]
    assert encode(asked, tokenizer, apart).unheld == ["across"]
    assert encode(asked, tokenizer, replace(apart, doc_stride=4)).unheld == []


def test_steps_that_would_leave_tokens_unread_are_refused() -> None:
    with pytest.raises(ValueError, match="doc_stride must be at most 61"):
        SquadConfig(max_tokens=128, doc_stride=128)
    with pytest.raises(ValueError, match=r"max_tokens 40 is too small .* at least 68"):
        SquadConfig(max_tokens=40)
    SquadConfig(max_tokens=68, doc_stride=1)
    with pytest.raises(ValueError, match="num_best"):
        SquadConfig(num_best=0)
