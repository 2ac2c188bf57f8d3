"""The command: folders of text in, the tokenizer's files out, whatever the number of workers."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

from bertsmith.commands import learn_vocab as command
from bertsmith.commands.learn_vocab import REPORT_FILE, learn_vocab
from bertsmith.commands.text_options import LearnVocab, ReadingChoices, VocabularyChoices
from bertsmith.text.tokenizer import Tokenizer

ENGLISH = [
    "The smith forged a new sword. It was sharper than the old swords.\n\n",
    "Forging takes time; a forge is hot. The smiths' apprentices were forging all day.\n\n",
]
KOREAN = "피곤해 보이네. 어제 늦게 잤니?\n\n어쩐지 피곤해 보이더라. 어제는 늦게 잤어.\n\n"


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def english(tmp_path: Path) -> Path:
    folder = tmp_path / "english"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("".join(ENGLISH) * 40, encoding="utf-8")
    return folder


def run(
    folder: Path, out: Path, vocab_size: int = 160, workers: int = 1, **choices: object
) -> LearnVocab:
    return LearnVocab(
        inputs=(folder,),
        out=out,
        vocab_size=vocab_size,
        vocabulary=VocabularyChoices(**choices),  # type: ignore[arg-type]
        reading=ReadingChoices(workers=workers),
    )


def test_writes_a_tokenizer_that_spells_the_text(english: Path, tmp_path: Path) -> None:
    console = quiet()
    out = learn_vocab(run(english, tmp_path / "vocab"), console)
    tokenizer = Tokenizer.load(out)
    assert tokenizer.tokenize("The old smith. Forging") == ["the", "old", "smith", ".", "forging"]
    assert "tokens a word" in said(console)
    leftovers = [path.name for path in out.iterdir() if path.name.endswith(".part")]
    assert leftovers == []


def test_files_are_the_same_bytes_for_any_number_of_workers(
    english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_BATCH_CHARACTERS", 1)  # every document is a batch
    for number in range(3, 10):
        text = f"Anvil {number} rings; fire {number % 4} burns low.\n\n"
        (english / f"{number}.txt").write_text(text * number, encoding="utf-8")
    outs = [
        learn_vocab(run(english, tmp_path / f"vocab{workers}", workers=workers), quiet())
        for workers in (1, 3)
    ]
    files = [{path.name: path.read_bytes() for path in out.iterdir()} for out in outs]
    assert files[0] == files[1]
    assert {"vocab.txt", "tokenizer.json", REPORT_FILE} <= files[0].keys()


def test_text_without_a_word_is_refused_with_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.jsonl").write_text('{"text": " "}\n' * 3)
    with pytest.raises(ValueError, match=r"found in 1 files; left out were 3 empty documents\. Ch"):
        learn_vocab(run(tmp_path / "text", tmp_path / "vocab"), quiet())


def test_report_says_what_became_of_the_words(english: Path, tmp_path: Path) -> None:
    (english / "rare.txt").write_text("The ᚠ was old.\n", encoding="utf-8")
    out = learn_vocab(run(english, tmp_path / "vocab", alphabet_limit=60), quiet())
    report = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(out)
    assert report["num_characters_dropped"] == 1
    assert report["num_unknown_words"] == 1
    assert report["vocab_size"] == tokenizer.vocab_size
    texts = [*ENGLISH * 120, "The ᚠ was old."]
    num_words = sum(len(tokenizer.words(text)) for text in texts)
    assert report["num_words"] == num_words
    num_tokens = sum(len(tokenizer.tokenize(text)) for text in texts)
    assert report["tokens_per_word"] == pytest.approx(num_tokens / num_words)


def test_cased_keeps_capitals_and_uncased_does_not(english: Path, tmp_path: Path) -> None:
    cased = Tokenizer.load(learn_vocab(run(english, tmp_path / "cased", cased=True), quiet()))
    uncased = Tokenizer.load(learn_vocab(run(english, tmp_path / "uncased"), quiet()))
    assert cased.tokenize("The")[0] == "The"
    assert uncased.tokenize("The")[0] == "the"


@pytest.mark.parametrize(
    ("choices", "is_told", "is_warned"),
    [
        ({}, True, False),
        ({"strip_accents": True}, False, True),
        ({"strip_accents": False}, False, False),
        ({"cased": True}, False, False),
    ],
)
def test_korean_keeps_its_accents_unless_told_otherwise_and_stripping_is_warned_of(
    tmp_path: Path, choices: dict[str, bool], is_told: bool, is_warned: bool
) -> None:
    source = tmp_path / "korean.txt"
    source.write_text(KOREAN * 20, encoding="utf-8")
    console = quiet()
    out = learn_vocab(run(source, tmp_path / "vocab", **choices), console)
    assert said(console).count("the text holds Korean: accents are kept") == is_told
    assert ("jamo" in said(console)) is is_warned
    assert said(console).count("warning: strip_accents is on") == is_warned
    assert said(console).count("--strip-accents False") == is_warned
    assert Tokenizer.load(out).config.strip_accents is is_warned


def test_hangul_far_behind_the_beginnings_is_warned_of_with_its_share(tmp_path: Path) -> None:
    source = tmp_path / "mixed.jsonl"
    english = json.dumps({"text": "The smith forged a new sword for the old king. " * 200})
    lines = [english] * 100 + [json.dumps({"text": KOREAN * 3})]
    source.write_text("\n".join(lines), encoding="utf-8")
    console = quiet()
    out = learn_vocab(run(source, tmp_path / "vocab"), console)
    report = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    assert report["num_jamo_words"] == 3 * len(re.findall("[가-힣]+", KOREAN))
    assert f"warning: the Hangul of {report['num_jamo_words']} words (0.0" in said(console)


@pytest.mark.parametrize(
    ("choices", "is_composed", "told_accents", "warned"),
    [
        ({}, True, True, ""),
        ({"unicode_form": "NFC"}, False, True, ""),
        ({"strip_accents": False}, True, False, ""),
        ({"cased": True}, True, False, ""),
        (
            {"unicode_form": "none"},
            False,
            False,
            "is decomposed, as macOS writes it, and unicode_form is none: every syllable stays",
        ),
        (
            {"unicode_form": "none", "strip_accents": False},
            False,
            False,
            "is decomposed, as macOS writes it, and unicode_form is none: every syllable stays",
        ),
        ({"unicode_form": "NFD"}, False, False, "unicode_form is NFD and the text holds Hangul"),
    ],
)
def test_decomposed_hangul_is_composed_unless_told_otherwise_which_is_warned_of(
    tmp_path: Path,
    choices: dict[str, object],
    is_composed: bool,
    told_accents: bool,
    warned: str,
) -> None:
    source = tmp_path / "korean.txt"
    source.write_text(unicodedata.normalize("NFD", KOREAN * 20), encoding="utf-8")
    console = quiet()
    out = learn_vocab(run(source, tmp_path / "vocab", **choices), console)  # type: ignore[arg-type]
    assert said(console).count("it is brought into the Unicode form NFC") == is_composed
    assert said(console).count("(--unicode-form none leaves it in jamo)") == is_composed
    assert said(console).count("the text holds Korean: accents are kept") == told_accents
    told = [line for line in said(console).splitlines() if "warning: " in line and "jamo" in line]
    assert len(told) == bool(warned)
    assert warned in said(console)
    assert said(console).count("learned with --unicode-form NFC") == bool(warned)
    report = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    num_korean = 20 * len(re.findall("[가-힣]+", KOREAN))
    assert report["num_jamo_words"] == (num_korean if warned else 0)
    assert report["settings"]["unicode_form"] == choices.get("unicode_form", "NFC")
    tokens = Tokenizer.load(out).tokenize(unicodedata.normalize("NFD", "어쩐지"))
    assert ("어" in "".join(tokens)) is not bool(warned)


def test_composed_korean_and_other_text_is_brought_into_no_form(
    english: Path, tmp_path: Path
) -> None:
    (tmp_path / "korean.txt").write_text(KOREAN * 20, encoding="utf-8")
    for source in (tmp_path / "korean.txt", english):
        out = learn_vocab(run(source, tmp_path / f"of {source.name}"), quiet())
        report = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
        assert report["settings"]["unicode_form"] == "none"
        assert Tokenizer.load(out).config.unicode_form == "none"


def test_decomposed_hangul_far_behind_the_beginnings_is_told_with_what_composes_it(
    tmp_path: Path,
) -> None:
    source = tmp_path / "mixed.jsonl"
    many = json.dumps({"text": KOREAN * 60})
    lines = [many] * 100 + [json.dumps({"text": unicodedata.normalize("NFD", KOREAN * 3)})]
    source.write_text("\n".join(lines), encoding="utf-8")
    console = quiet()
    learn_vocab(run(source, tmp_path / "vocab"), console)
    num_apart = 3 * len(re.findall("[가-힣]+", KOREAN))
    assert f"warning: the Hangul of {num_apart} words (0.0" in said(console)
    assert "learned with --unicode-form NFC keeps its syllables whole" in said(console)


def test_korean_lower_cased_without_accent_stripping_survives(tmp_path: Path) -> None:
    source = tmp_path / "korean.txt"
    source.write_text(KOREAN * 20, encoding="utf-8")
    console = quiet()
    out = learn_vocab(run(source, tmp_path / "vocab", strip_accents=False), console)
    report = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    assert report["num_hangul_added"] > 0
    assert f"{report['num_hangul_added']} further Hangul syllables and letters" in said(console)
    tokenizer = Tokenizer.load(out)
    text = "피곤해 보이네."
    assert tokenizer.tokenize(text) == ["피곤해", "보이네", "."]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"\x00\x01\x02\xff" * 50, "binary|encod|UTF-8")],
)
def test_empty_and_binary_input_is_refused_before_the_work(
    tmp_path: Path, content: bytes, message: str
) -> None:
    source = tmp_path / "input.txt"
    source.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        learn_vocab(run(source, tmp_path / "vocab"), quiet())
    assert not (tmp_path / "vocab").exists()


@pytest.mark.parametrize(
    ("choices", "warned"),
    [
        ({"vocab_size": 10}, "% of the words are unknown, usual is well under 1%"),
        ({"vocab_size": 48, "alphabet_limit": 20}, "rows are left for more than single characters"),
        ({"vocab_size": 160}, ""),
    ],
)
def test_a_vocabulary_too_small_for_its_alphabet_is_warned_of(
    english: Path, tmp_path: Path, choices: dict[str, int], warned: str
) -> None:
    console = quiet()
    learn_vocab(run(english, tmp_path / "vocab", **choices), console)  # type: ignore[arg-type]
    warnings = [line for line in said(console).splitlines() if line.startswith("warning")]
    assert bool(warnings) == bool(warned)
    assert warned in "".join(warnings)


def test_rows_too_few_for_the_characters_are_warned_of_before_the_words_are_counted(
    english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CountingBeganError(Exception):
        pass

    def counting(*arguments: object) -> None:
        raise CountingBeganError

    monkeypatch.setattr(command, "_count", counting)
    console = quiet()
    for size in (160, 10):
        assert "would be unknown" not in said(console)
        with pytest.raises(CountingBeganError):
            learn_vocab(run(english, tmp_path / "vocab", vocab_size=size), console)
    assert re.search(r"warning: \d+\.\d% of the words would be unknown", said(console))


def test_impossible_size_is_refused_when_the_options_are_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocab_size 3 "):
        run(tmp_path, tmp_path / "vocab", vocab_size=3)


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "tokenizer.json"])
def test_a_model_or_another_vocabulary_is_not_replaced(
    english: Path, tmp_path: Path, file: str
) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / file).write_text("theirs")
    with pytest.raises(ValueError, match=f"holds {file}, which a new vocabulary would replace"):
        learn_vocab(run(english, out), quiet())
    assert [path.name for path in out.iterdir()] == [file]
    assert (out / file).read_text() == "theirs"


def test_its_own_vocabulary_is_replaced(english: Path, tmp_path: Path) -> None:
    learn_vocab(run(english, tmp_path / "vocab"), quiet())
    learn_vocab(run(english, tmp_path / "vocab", cased=True), quiet())
    assert not Tokenizer.load(tmp_path / "vocab").config.lowercase


@pytest.mark.parametrize(
    ("named", "found", "put"),
    [
        ("vocab.txt", "\nforging\n", "\nforgery\n"),
        ("vocab.txt", "[PAD]\n", ""),
        ("tokenizer.json", '"forging"', '"forgery"'),
        ("tokenizer.json", "{", ""),
    ],
)
def test_its_own_vocabulary_is_not_replaced_once_it_was_edited(
    english: Path, tmp_path: Path, named: str, found: str, put: str
) -> None:
    out = learn_vocab(run(english, tmp_path / "vocab"), quiet())
    content = (out / named).read_text(encoding="utf-8")
    assert found in content
    (out / named).write_text(content.replace(found, put), encoding="utf-8")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(
        ValueError, match=rf"{named} .*not as learn-vocab wrote it.* --out, or move"
    ):
        learn_vocab(run(english, out), quiet())
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("stopped", ["write_json", "Tokenizer.save"])
def test_a_vocabulary_half_written_is_replaced(
    english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    learn_vocab(run(english, tmp_path / "vocab"), quiet())
    with monkeypatch.context() as patch:
        patch.setattr(f"{command.__name__}.{stopped}", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learn_vocab(run(english, tmp_path / "vocab", cased=True), quiet())
    out = learn_vocab(run(english, tmp_path / "vocab", cased=True), quiet())
    assert Tokenizer.load(out).tokenize("The")[0] == "The"
