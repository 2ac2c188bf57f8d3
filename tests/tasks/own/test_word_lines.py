"""Lines of words and tags are told from texts and tables, whatever a file is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.tasks.own.word_lines import holds_words, is_word_and_tag

COLUMNS, TAGS = ("tokens", "words", "text"), ("O", "B-PER", "I-PER")


def is_words(
    path: Path, content: str, *, is_table: bool = False, has_header: bool = True,
    tags: tuple[str, ...] = TAGS,
) -> bool:  # fmt: skip
    path.write_text(content, "utf-8")
    return holds_words(path, COLUMNS, tags, is_table=is_table, has_header=has_header)


@pytest.mark.parametrize("name", ["a.conll", "a.conllu", "a.bio", "a.iob", "a.iob2", "a.bio.gz"])
def test_some_names_say_it(name: str, tmp_path: Path) -> None:
    assert is_words(tmp_path / name, "the dog\n", is_table=True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("EU B-ORG\nrejects O\n\nPeter B-PER\n", True),
        ("-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n", True),
        ("## id\tp a\nп\tB-PER\n \tO\nа\tO\n", True),
        ("EU O\n" * 30 + "broken\n", True),
        ("the dog\nmy cat\n", False),
        ("Vitamin O\nis not a vitamin at all\n", False),
        ("O\nO\n", False),
        ("", False),
        ("\n\n", False),
    ],
)
def test_plain_text_is_told_from_words_by_its_tags(
    content: str, expected: bool, tmp_path: Path
) -> None:
    assert is_words(tmp_path / "a.txt", content) is expected


def test_tags_of_any_kind_are_known_by_the_model(tmp_path: Path) -> None:
    content = "the DET\ndog NOUN\n"
    assert not is_words(tmp_path / "a.txt", content)
    assert is_words(tmp_path / "a.txt", content, tags=("DET", "NOUN"))


def test_tabs_part_words_and_tags_unless_a_column_is_named(tmp_path: Path) -> None:
    words, table = "EU\tB-ORG\nrejects\tO\n", "id\ttext\n1\tthe dog\n"
    path = tmp_path / "a.tsv"
    assert is_words(path, words)
    assert not is_words(path, table)
    assert not is_words(path, words, is_table=True)
    assert is_words(path, table, has_header=False)
    assert is_words(path, "text\tO\nbooks\tO\n\nhe\tO\n")
    assert not is_words(path, "text\tlabel\nbooks\tO\n\n\n")
    assert not is_words(tmp_path / "a.csv", "text\nthe dog\n")
    assert not is_words(tmp_path / "a.jsonl", '{"text": "the dog"}\n')


def test_a_line_that_ends_in_an_entitys_tag_is_no_text() -> None:
    assert is_word_and_tag("EU NNP B-NP B-PER", TAGS)
    assert is_word_and_tag("п\tI-PER", TAGS)
    for text in ("", "B-PER", "EU O", "the dog .", "an E-mail", "vitamin B-12", "-"):
        assert not is_word_and_tag(text, (*TAGS, "."))
