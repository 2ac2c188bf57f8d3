"""Words and tags come out of columns and rows alike; tags that are no BIO are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertsmith.tasks.own.bio import two_dialects, two_schemes
from bertsmith.tasks.own.files import FileOptions
from bertsmith.tasks.own.split import SplitConfig, split
from bertsmith.tasks.own.word_columns import WordColumns
from bertsmith.tasks.own.words import contents, read, summary
from bertsmith.tasks.tag_scheme import TagScheme
from tests.tasks.own.written import hub_parquet_at, lines_at, real, rows_at

NAMED = [
    {"tokens": ["Anna", "slept"], "ner_tags": ["B-PER", "O"], "paper": "a"},
    {"tokens": ["In", "Rome"], "ner_tags": ["O", "B-LOC"], "paper": "b"},
    {"tokens": ["Again"], "ner_tags": ["O"], "paper": "a"},
]
NAMES = ("O", "B-PER", "B-LOC")
NUMBERED = [{**row, "ner_tags": [NAMES.index(tag) for tag in row["ner_tags"]]} for row in NAMED]
TAGS = [("B-PER", "O"), ("O", "B-LOC"), ("O",)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_rows_hold_tags_by_name_or_by_number(tmp_path: Path, name: str) -> None:
    path = rows_at(tmp_path / name, *NAMED)
    assert [each.tags for each in read(path).examples] == TAGS
    assert [each.document for each in read(path).examples] == [0, 1, 2]
    by_paper = read(path, WordColumns(document="paper")).examples
    assert [each.document for each in by_paper] == [0, 1, 0]
    assert read(path, WordColumns(tags=None)).examples[0].tags is None
    numbered = rows_at(tmp_path / name, *NUMBERED)
    assert [each.tags for each in read(numbered, WordColumns(tag_names=NAMES)).examples] == TAGS
    with pytest.raises(
        ValueError, match=r"(:|row )1: the tags are numbers, and nothing says .* --tag-names"
    ):
        read(numbered)


def test_the_hubs_parquet_brings_the_names_of_its_tags(tmp_path: Path) -> None:
    label = {"names": list(NAMES), "_type": "ClassLabel"}
    features = {"ner_tags": {"feature": label, "_type": "List"}}
    path = hub_parquet_at(tmp_path / "a.parquet", features, NUMBERED)
    assert [each.tags for each in read(path).examples] == TAGS


def test_columns_are_read_and_summed_up(tmp_path: Path) -> None:
    path = lines_at(
        tmp_path / "a.txt", "-DOCSTART- O", "", "Anna I-PER", "Bo B-PER", "", "in O", "Rome I-LOC",
        "", "-DOCSTART- O", "", "in O", "Rome I-LOC",
    )  # fmt: skip
    file = read(path)
    assert read(path, WordColumns(tags=None)).examples[0].tags is None
    found = summary(file, TagScheme.of(file.examples))
    assert found.balance == "4 entities: PER 2 (50.0%), LOC 2 (50.0%)"
    assert found.notes == ("6 words; documents: 2", "1 sentence met before in the file")
    assert "2 (longest)" in found.lines()[2]
    parts = TagScheme(("ADP", "NOUN"), is_of_entities=False)
    lines_at(path, "in ADP", "Rome NOUN")
    assert summary(read(path), parts).balance == "2 tags: ADP 1 (50.0%), NOUN 1 (50.0%)"


def test_a_document_stays_on_one_side_and_a_sentence_where_none_is_marked(tmp_path: Path) -> None:
    path = rows_at(tmp_path / "a.jsonl", *NAMED)
    by_paper = read(path, WordColumns(document="paper")).examples
    first, second, third = contents(by_paper)
    assert first == third != second
    train, dev = split(by_paper, contents(by_paper), SplitConfig())
    assert ({each.document for each in train}, {each.document for each in dev}) == ({0}, {1})
    unmarked = read(lines_at(tmp_path / "a.txt", "a O", "", "b O", "", "A O"))
    assert contents(unmarked.examples) == ["a", "b", "a"]
    assert [each.document for each in unmarked.examples] == [0, 1, 2]
    assert unmarked.notes == ("no -DOCSTART- marks a document: each sentence is read alone",)
    as_one = read(tmp_path / "a.txt", WordColumns(is_one_document=True))
    assert (contents(as_one.examples), as_one.notes) == (["a", "b", "a"], ())
    assert [each.document for each in as_one.examples] == [0, 0, 0]
    marked = read(lines_at(tmp_path / "a.txt", "a O", "", "b O", "", "-DOCSTART- O"))
    assert ([each.document for each in marked.examples], marked.notes) == ([0, 0], ())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a"], "ner_tags": ["O", "O"]}, "a.jsonl:2: 2 tags for 1 word"),
        ({"tokens": ["a", ""], "ner_tags": ["O", "O"]}, "word 2 has no characters"),
        ({"tokens": ["\ud800"], "ner_tags": ["O"]}, "word 1 holds half a character"),
        ({"tokens": "a", "ner_tags": ["O"]}, "expected a list of words, found 'a'"),
        ({"tokens": ["a"], "ner_tags": "O"}, "expected a list of tags, found 'O'"),
        ({"tokens": ["a"]}, "no field 'ner_tags'"),
    ],
)
def test_a_broken_row_is_refused_or_left_out(
    tmp_path: Path, row: dict[str, object], message: str
) -> None:
    path = tmp_path / "a.jsonl"
    text = rows_at(path, NAMED[0]).read_text(encoding="utf-8")
    lines_at(path, text + json.dumps(row))
    with pytest.raises(ValueError, match=message):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert (len(file.examples), len(file.left_out)) == (1, 1)


@pytest.mark.parametrize("line", ["Bo", "Bo B-PER x", " \tO"])
def test_a_broken_line_leaves_its_sentence_out_where_that_is_asked_for(
    tmp_path: Path, line: str
) -> None:
    path = lines_at(tmp_path / "a.txt", "Anna B-PER", "", "Bo B-PER", line, "", "in O")
    if "\t" in line:
        lines_at(path, "Anna\tB-PER", "", "Bo\tB-PER", "\tO", "", "in\tO")
    with pytest.raises(ValueError, match=r"a.txt:4: .*--skip-malformed"):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert ([each.words for each in file.examples], len(file.left_out)) == ([("Anna",), ("in",)], 1)


def test_sentences_without_words_are_left_out_and_told(tmp_path: Path) -> None:
    path = rows_at(tmp_path / "a.jsonl", NAMED[0], {"tokens": [], "ner_tags": []})
    assert read(path).left_out == (f"{path}:2: no words",)


def test_a_tag_that_is_no_bio_among_others_that_are_is_refused(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.txt", "Anna B-PER", "slept O", "", "Bo BPER", "in O", "Rom BLOC")
    with pytest.raises(
        ValueError, match=r"a.txt:4: word 1 \('Bo'\): 'BPER' is no tag.* stand in 1 sentence,"
    ):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert [each.words for each in file.examples] == [("Anna", "slept")]
    (fault,) = file.left_out
    assert "a.txt:4: word 1 ('Bo')" in fault
    kept = read(lines_at(tmp_path / "b.txt", "Anna PROPN", "slept VERB", "O INTJ")).examples
    assert kept[0].tags == ("PROPN", "VERB", "INTJ")


@pytest.mark.parametrize(
    ("tags", "is_mixed"),
    [
        (["I-PER", "B-PER", "O", "I-LOC"], False),
        (["B-PER", "I-PER", "B-PER", "O", "B-LOC"], False),
        (["B-PER", "O", "I-LOC"], True),
        (["B-PER", "I-LOC"], True),
        (["NOUN", "VERB"], False),
    ],
)
def test_two_dialects_in_one_file_are_told(tmp_path: Path, tags: list[str], is_mixed: bool) -> None:
    file = read(lines_at(tmp_path / "a.txt", *(f"a {tag}" for tag in tags)))
    assert bool(two_dialects(file.examples)) is is_mixed
    assert bool(file.notes) is is_mixed


@pytest.mark.parametrize(
    ("tags", "told"),
    [
        ("B-PER I-PER O S-LOC", "1 entity has tags of BIOES or BILOU (S-, E-, U-, L-), the first "
         "'S-LOC' in {path}:4, and 1 entity is not so closed, the first in {path}:1: S- and U-"),
        ("B-PER E-PER B-LOC O B-LOC", "the first 'E-PER' in {path}:2, and 2 entities are not so"),
        ("S-LOC O U-LOC", "2 entities have tags of .* 'S-LOC' in {path}:1, and BIOES stands be"),
        ("E-PER O S-LOC", "the first 'E-PER' in {path}:1, and 1 entity is not so closed"),
        ("B-PER I-PER E-PER O S-LOC S-LOC", ""),
        ("B-PER I-PER L-PER O U-LOC", ""),
        ("B-PER I-PER O B-LOC", ""),
        ("NOUN S-X", ""),
    ],
)  # fmt: skip
def test_tags_of_other_schemes_are_counted_where_they_are_not_in_all_entities(
    tmp_path: Path, tags: str, told: str
) -> None:
    path = lines_at(tmp_path / "a.txt", *(f"a {tag}" for tag in tags.split()))
    examples = read(path).examples
    note = two_schemes(examples)
    assert bool(note) is bool(told)
    assert (note in read(path).notes) is bool(told)
    for part in told.format(path=path).split(" .* "):
        assert part in note


def test_bioes_throughout_is_read_as_its_entities(tmp_path: Path) -> None:
    tags = ("B-PER", "I-PER", "E-PER", "S-PER", "O", "S-LOC")
    file = read(lines_at(tmp_path / "a.txt", *(f"a {tag}" for tag in tags)))
    found = summary(file, TagScheme.of(file.examples)).balance
    assert found == "3 entities: PER 2 (66.7%), LOC 1 (33.3%)"


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "num_sentences", "balance"),
    [
        # Tjong Kim Sang and De Meulder 2003, table 2.
        ("conll2003/eng.testa.gz", 3_250, "LOC 1,837 .* PER 1,842 .* MISC 922 .* ORG 1,341"),
        ("korean/klue_ner/dev.tsv.gz", 500, "PS .* QT"),
    ],
)
def test_the_real_sets_are_whole(name: str, num_sentences: int, balance: str) -> None:
    file = read(real(name))
    assert (len(file.examples), file.left_out) == (num_sentences, ())
    assert file.notes == (
        ("no -DOCSTART- marks a document: each sentence is read alone",) if "klue" in name else ()
    )
    found = summary(file, TagScheme.of(file.examples)).balance
    for part in balance.split(" .* "):
        assert part in found
