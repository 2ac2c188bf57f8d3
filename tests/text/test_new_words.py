"""Words of one's own become single entries, and no other entry moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.text.new_words import (
    otherwise_split,
    pieces_of_new_rows,
    read_words,
    with_words,
)
from bertsmith.text.rules import TokenizerConfig
from bertsmith.text.tokenizer import Tokenizer

ENTRIES = (
    "[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "new",
    "##ro", "##n", "##s", "neu", "zur", "##ich", "##al", "[unused2]",
)  # fmt: skip


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(ENTRIES)


def lines(*words: str) -> dict[int, str]:
    return dict(enumerate(words, 1))


def test_words_take_unused_rows_in_their_order_and_then_rows_at_the_end(
    tokenizer: Tokenizer,
) -> None:
    new = with_words(tokenizer, lines("neuron", "zurich", "neurons", "cats", "unheard"), "words")
    assert new.added == ("neuron", "zurich", "neurons", "cats", "unheard")
    assert new.num_unused == 3
    entries = list(ENTRIES)
    entries[1], entries[2], entries[17] = "neuron", "zurich", "neurons"
    assert new.tokenizer.vocabulary == (*entries, "cats", "unheard")
    assert new.tokenizer.config == tokenizer.config
    for word in new.added:
        assert new.tokenizer.tokenize(f"the {word}") == ["the", word]
    assert "new entries for 5 words: 3 in place of [unused] ones, 2 behind" in new.told()
    assert "(18 -> 20 entries)" in new.told()


def test_what_is_a_single_entry_stays_and_what_is_spelt_otherwise_is_told(
    tokenizer: Tokenizer,
) -> None:
    new = with_words(tokenizer, lines("CAT", "Zürich", "zurich", "the", "qqq"), "words.txt")
    assert new.added == ("zurich", "qqq")
    assert new.notes == (
        "single entries already, which stay as they are (2): cat, the",
        "taken as the tokenizer spells them (1): Zürich -> zurich",
        "unknown before, and begin with the vector of [UNK] (1): qqq",
        "lines of words.txt that repeat a word of another: 1",
    )


def test_a_cased_tokenizer_keeps_case_and_accents() -> None:
    cased = Tokenizer(ENTRIES, TokenizerConfig(lowercase=False, strip_accents=False))
    new = with_words(cased, lines("Zürich", "Neuron"), "words")
    assert new.added == ("Zürich", "Neuron")
    assert new.tokenizer.tokenize("Zürich Neuron") == ["Zürich", "Neuron"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("two words", "holds a blank"),
        ("covid-19", r"is 3 words to this tokenizer \(covid - 19\)"),
        ("[MASK]", "is 3 words"),
        ("##ing", "is 3 words"),
        ("新冠", "is 2 words"),
        ("\u200b", "holds no character"),
        ("n" * 201, "has 201 characters, and words beyond 200"),
    ],
)
def test_what_cannot_be_an_entry_is_refused_by_its_line(
    tokenizer: Tokenizer, word: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"words.txt: line 2: .*{reason}"):
        with_words(tokenizer, lines("neuron", word), "words.txt")


def test_all_faults_are_told_at_once(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"line 1: .*line 5: .* \(and 2 more\)"):
        with_words(tokenizer, lines(*(f"a b{number}" for number in range(7))), "words")


def test_a_word_that_holds_a_token_taken_whole_is_refused() -> None:
    config = TokenizerConfig(added_tokens=("ro",))
    tokenizer = Tokenizer([*ENTRIES, "ro"], config)
    with pytest.raises(ValueError, match="neuron cannot be entries"):
        with_words(tokenizer, lines("neuron"), "words")


def test_an_unused_entry_that_is_taken_whole_is_no_free_row() -> None:
    tokenizer = Tokenizer(ENTRIES, TokenizerConfig(added_tokens=("[unused0]",)))
    new = with_words(tokenizer, lines("neuron"), "words")
    assert new.tokenizer.id_of("neuron") == 2


def test_new_rows_know_the_pieces_they_were_made_of(tokenizer: Tokenizer) -> None:
    new = with_words(tokenizer, lines("neuron", "zurich", "cats", "qqq"), "words")
    row = {entry: place for place, entry in enumerate(ENTRIES)}
    assert pieces_of_new_rows(tokenizer, new.tokenizer) == {
        1: (row["neu"], row["##ro"], row["##n"]),
        2: (row["zur"], row["##ich"]),
        17: (row["cat"], row["##s"]),
        18: (row["[UNK]"],),
    }
    assert pieces_of_new_rows(tokenizer, tokenizer) == {}


@pytest.mark.parametrize(
    "other",
    [
        Tokenizer(ENTRIES[:-1]),
        Tokenizer([*ENTRIES[:-2], "##other", "[unused2]"]),
        Tokenizer(ENTRIES, TokenizerConfig(lowercase=False, strip_accents=False)),
    ],
)
def test_a_vocabulary_that_is_not_the_models_own_has_no_new_rows(
    tokenizer: Tokenizer, other: Tokenizer
) -> None:
    with pytest.raises(ValueError, match="is not the model's own of 18 with words added"):
        pieces_of_new_rows(tokenizer, other)


def test_longer_words_that_begin_with_a_new_one_are_found(tokenizer: Tokenizer) -> None:
    new = with_words(tokenizer, lines("neuro", "zurich"), "words")
    sentences = ["The neurons, neuro and newal Zurich.", "neurons of cats"]
    assert otherwise_split(tokenizer, new, sentences) == {
        "neurons": (["neu", "##ro", "##n", "##s"], ["neuro", "##n", "##s"]),
    }


def test_a_file_is_read_by_lines_and_its_empty_ones_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeffneuron\r\n\n  zurich \n".encode())
    assert read_words(file) == {1: "neuron", 3: "zurich"}
    file.write_text("\n \n")
    with pytest.raises(ValueError, match="holds no word"):
        read_words(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_words(file)
    with pytest.raises(FileNotFoundError):
        read_words(tmp_path / "other.txt")
