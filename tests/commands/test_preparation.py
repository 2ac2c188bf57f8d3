"""What `pretrain` makes of text is found again for that text and those choices only."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bertsmith.commands import preparation
from bertsmith.commands.build_corpus import build_corpus
from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.text_options import (
    BuildCorpus,
    ReadingChoices,
    TextChoices,
    VocabularyChoices,
)
from bertsmith.corpus import build
from bertsmith.corpus.store import Corpus
from bertsmith.reading.documents import find_sources
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer
from tests.commands.small_run import write_text

CHOICES = TextChoices(vocab_size=240, held_out=0.1, reading=ReadingChoices(workers=1))
KOREAN = "어제 늦게 잤어?\n어쩐지 피곤해 보이더라.\n\n"


def prepare(text: Path, run: Path, choices: TextChoices = CHOICES) -> str:
    """Makes or finds the corpus in the run's directory; returns what was said."""
    output = io.StringIO()
    found = corpus_of([text], choices, run, Console(file=output, width=500))
    assert found == run / "corpus"
    return output.getvalue()


def made(run: Path) -> dict[str, bytes]:
    """Every file of the vocabulary and the corpus."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path / "text")


@pytest.fixture
def run(text: Path, tmp_path: Path) -> Path:
    prepare(text, tmp_path / "run")
    return tmp_path / "run"


def test_the_same_text_is_neither_learned_from_nor_read_again(
    text: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> Iterator[object]:
        raise AssertionError("nothing is to be made again")

    before = made(run)
    monkeypatch.setattr(preparation, "learn_vocab", nothing)
    monkeypatch.setattr(build, "read_blocks", nothing)
    said = prepare(text, run, replace(CHOICES, reading=ReadingChoices(workers=3)))
    assert said.count("made before") == 2
    assert made(run) == before


def test_other_text_is_learned_from_and_built_as_if_nothing_had_been_there(
    text: Path, run: Path, tmp_path: Path
) -> None:
    more = (text / "text.txt").read_text() + "\n\na quick fox jumps over the lazy dog .\n" * 9
    (text / "text.txt").write_text(more)
    said = prepare(text, run)
    assert said.count("other settings: input files") == 2
    prepare(text, tmp_path / "fresh")
    assert made(run) == made(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("changed", "said_of_vocabulary", "said_of_corpus"),
    [
        (replace(CHOICES, vocab_size=132), "vocab_size (there 240, now 132)", "vocabulary (there"),
        (
            replace(CHOICES, reading=ReadingChoices(workers=1, language="ko")),
            "language (there auto, now ko)",
            "language (there auto",
        ),
        (replace(CHOICES, held_out=0.2), "made before", "held_out (there 0.1, now 0.2)"),
        (
            replace(CHOICES, vocabulary=VocabularyChoices(strip_accents=False)),
            "strip_accents (there None, now",
            "vocabulary (",
        ),
    ],
)
def test_another_choice_is_named_and_what_depends_on_it_made_again(
    text: Path,
    run: Path,
    tmp_path: Path,
    changed: TextChoices,
    said_of_vocabulary: str,
    said_of_corpus: str,
) -> None:
    vocabulary, *others = [
        line for line in prepare(text, run, changed).splitlines() if ": " in line
    ]
    assert said_of_vocabulary in vocabulary
    assert any(said_of_corpus in line for line in others)
    prepare(text, tmp_path / "fresh", changed)
    assert made(run) == made(tmp_path / "fresh")


def test_half_a_corpus_of_other_settings_is_begun_anew(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build._Builder, "finish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare(text, tmp_path / "run")
    changed = replace(CHOICES, held_out=0.2)
    prepare(text, tmp_path / "run", changed)
    prepare(text, tmp_path / "fresh", changed)
    assert made(tmp_path / "run") == made(tmp_path / "fresh")


def test_a_vocabulary_edited_by_hand_is_used_and_never_overwritten(text: Path, run: Path) -> None:
    learned = Tokenizer.load(run / "vocab")
    edited = Tokenizer((*learned.vocabulary[:-1], "zebra"), learned.config)
    edited.save(run / "vocab")
    prepare(text, run)
    assert Corpus.open(run / "corpus").tokenizer().fingerprint == edited.fingerprint
    before = made(run)
    with pytest.raises(ValueError, match=r"edited since.*vocab_size .*give --vocab .*or delete it"):
        prepare(text, run, replace(CHOICES, vocab_size=132))
    assert made(run) == before


@pytest.mark.parametrize("choices", [CHOICES, replace(CHOICES, vocab_size=132)])
@pytest.mark.parametrize("entries", [("zebra",), ("zebra", "yak"), ()])
def test_a_vocab_txt_edited_by_hand_is_neither_overwritten_nor_passed_over(
    text: Path, run: Path, choices: TextChoices, entries: tuple[str, ...]
) -> None:
    rows = run / "vocab" / "vocab.txt"
    kept = rows.read_text(encoding="utf-8").splitlines()[:-1]
    rows.write_text("".join(f"{entry}\n" for entry in (*kept, *entries)), encoding="utf-8")
    before = made(run)
    with pytest.raises(ValueError, match=r"vocab\.txt was edited: .*give --vocab .*vocab\.txt; "):
        prepare(text, run, choices)
    assert made(run) == before
    prepare(text, run, replace(CHOICES, vocab=rows))
    assert Corpus.open(run / "corpus").tokenizer().vocabulary == (*kept, *entries)


def test_a_vocabulary_put_there_by_hand_is_not_overwritten(text: Path, tmp_path: Path) -> None:
    Tokenizer([*SPECIAL_TOKENS, "a"]).save(tmp_path / "run" / "vocab")
    before = made(tmp_path)
    with pytest.raises(ValueError, match=r"does not say what .*give --vocab .*or delete it"):
        prepare(text, tmp_path / "run")
    assert made(tmp_path) == before


@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_a_corpus_that_a_person_built_is_found_and_never_deleted(
    text: Path, run: Path, tmp_path: Path, has_vocabulary: bool
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(run / "vocab", mine / "vocab")
    build_corpus(
        BuildCorpus(inputs=(text,), vocab=mine / "vocab", out=mine / "corpus", held_out=0.1),
        Console(quiet=True),
    )
    if has_vocabulary:
        assert f"corpus: {mine / 'corpus'}, made before" in prepare(text, mine)
    else:
        shutil.rmtree(mine / "vocab")
    before = made(mine)
    with pytest.raises(ValueError, match=r"not made by pretrain.*--out, or move it away"):
        prepare(text, mine, replace(CHOICES, held_out=0.2))
    assert made(mine) == before


def test_a_given_vocabulary_is_only_read(text: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "vocab", tmp_path / "mine")
    learned = Tokenizer.load(tmp_path / "mine")
    mine = Tokenizer(learned.vocabulary[:-5], learned.config)
    mine.save(tmp_path / "mine")
    before = made(tmp_path / "mine")
    prepare(text, run, replace(CHOICES, vocab=tmp_path / "mine", vocab_size=132))
    assert made(tmp_path / "mine") == before
    assert Corpus.open(run / "corpus").tokenizer().fingerprint == mine.fingerprint


def test_a_run_inside_its_text_is_refused_before_anything_is_made(text: Path) -> None:
    with pytest.raises(ValueError, match="lies inside the input"):
        prepare(text, text / "run")
    assert not (text / "run").exists()


@pytest.mark.parametrize(
    ("korean_files", "keeps_accents"), [((), False), ((3,), True), (tuple(range(6)), True)]
)
def test_accents_are_kept_where_a_part_of_the_text_is_korean(
    tmp_path: Path, korean_files: tuple[int, ...], keeps_accents: bool
) -> None:
    text = write_text(tmp_path / "text")
    for number in range(6):
        english = (text / "text.txt").read_text() + "\n\nHangul is called 한글 .\n"
        content = KOREAN * 40 if number in korean_files else english
        (text / f"{number}.txt").write_text(content)
    said = prepare(text, tmp_path / "run")
    assert said.count("accents are kept") == keeps_accents  # once, though two commands ask
    tokenizer = Tokenizer.load(tmp_path / "run" / "vocab")
    assert tokenizer.config.strip_accents is not keeps_accents


def test_decomposed_korean_is_composed_and_found_again(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text")
    (text / "text.txt").write_text(unicodedata.normalize("NFD", KOREAN * 40), encoding="utf-8")
    said = prepare(text, tmp_path / "run")
    assert said.count("is brought into the Unicode form NFC") == 1  # though two commands ask
    assert said.count("accents are kept") == 1
    tokenizer = Tokenizer.load(tmp_path / "run" / "vocab")
    assert (tokenizer.config.unicode_form, tokenizer.config.strip_accents) == ("NFC", False)
    assert "어" in tokenizer.vocabulary
    assert prepare(text, tmp_path / "run").count("made before") == 2
    chosen = replace(CHOICES, vocabulary=VocabularyChoices(unicode_form="none"))
    said = prepare(text, tmp_path / "run", chosen)
    assert "unicode_form (there NFC, now none)" in said
    assert "every syllable stays apart in jamo" in said


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("어제 늦게 잤어?", 12_000),
        (unicodedata.normalize("NFD", "어제 늦게 잤어?"), 12_000),
        ("昨日は遅く寝た。", 8_000),
        ("ひらがなと", 8_000),
        ("昨天睡得很晚。", 8_000),
        ("she slept late .", 2_000),
        ("она поздно легла .", 2_000),
    ],
)
def test_a_script_of_thousands_of_characters_gets_rows_for_them(
    tmp_path: Path, line: str, rows: int
) -> None:
    (tmp_path / "text.txt").write_text(f"{line}\n\n" * 200, encoding="utf-8")
    choices = TextChoices(vocabulary=VocabularyChoices(min_count=3, split_cjk=False))
    text, vocab = tmp_path / "text.txt", tmp_path / "vocab"
    learning = preparation._to_learn([text], choices, vocab, Console(quiet=True))
    assert learning is not None
    assert learning.vocab_size == rows
    assert (learning.vocabulary.min_count, learning.vocabulary.split_cjk) == (3, False)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.tgz"])
def test_compressed_text_counts_three_times(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with tarfile.open(path, "w:gz") if name == "a.tgz" else gzip.open(path, "wt") as file:
        if isinstance(file, tarfile.TarFile):
            file.add(write_text(tmp_path / "text"), "text")
        else:
            file.write("a cat sees a dog .\n\nit runs .\n")
    (source,) = find_sources([path])
    assert preparation._text_bytes(source) == 3 * source.size_bytes
