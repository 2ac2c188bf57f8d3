from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from bertsmith import files
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.text.texts import VOCABULARY

HA = "\u1112\u1161"  # a syllable, decomposed
TEXTS = ["My dog is cute, don't he?", "한국어 中国 É e\u0301 Å", "x" * 150, "[MASK] my", ""]
CONFIGS = [
    TokenizerConfig(),
    TokenizerConfig(lowercase=False, strip_accents=False),
    TokenizerConfig(lowercase=True, strip_accents=False, split_cjk=False),
    TokenizerConfig(lowercase=False, strip_accents=False, unicode_form="NFKD", longest_word=50),
    TokenizerConfig(library_rules=True, special_tokens_in_text=True, added_tokens=("<e>",)),
]


def vocabulary_of(config: TokenizerConfig) -> tuple[str, ...]:
    return VOCABULARY + config.added_tokens


@pytest.mark.parametrize("config", CONFIGS)
def test_saved_and_loaded_is_the_same(config: TokenizerConfig, tmp_path: Path) -> None:
    tokenizer = Tokenizer(vocabulary_of(config), config)
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).fingerprint == tokenizer.fingerprint
    assert {path.name for path in tmp_path.iterdir()} == {
        "vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    }  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("config", CONFIGS)
def test_saved_files_encode_equally_in_transformers(
    config: TokenizerConfig, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = Tokenizer(vocabulary_of(config), config)
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.mask_token_id, theirs.pad_token_id) == (tokenizer.mask_id, tokenizer.pad_id)
    for text in TEXTS:
        ours = tokenizer.encode(text, "my dog <e>", special_tokens_in_text=True)
        found = theirs(text, "my dog <e>", return_token_type_ids=True)
        assert found["input_ids"] == ours.ids.tolist()
        assert found["token_type_ids"] == ours.segments.tolist()


@pytest.mark.parity
@pytest.mark.parametrize("lowercase", [True, False])
def test_files_of_transformers_load_here(lowercase: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=lowercase)
    theirs.save_pretrained(tmp_path / "saved")
    loaded = [Tokenizer.load(tmp_path), Tokenizer.load(tmp_path / "saved")]
    for tokenizer in loaded:
        assert (tokenizer.config.lowercase, tokenizer.config.strip_accents) == (lowercase,) * 2
        for text in TEXTS:
            if "[" not in text and len(text) <= 100:
                assert theirs(text)["input_ids"] == tokenizer.encode(text).ids.tolist()


def write_library_file(path: Path, normalizer: normalizers.Normalizer | None) -> None:
    rows = {token: row for row, token in enumerate(VOCABULARY)}
    native = tokenizers.Tokenizer(models.WordPiece(rows, unk_token="[UNK]"))
    native.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if normalizer is not None:
        native.normalizer = normalizer
    native.save(str(path))


@pytest.mark.parametrize(
    ("normalizer", "expected"),
    [
        (normalizers.BertNormalizer(lowercase=True), TokenizerConfig()),
        (
            normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False),
            TokenizerConfig(lowercase=False, strip_accents=False, split_cjk=False),
        ),
        (
            normalizers.BertNormalizer(lowercase=True, strip_accents=False),
            TokenizerConfig(strip_accents=False),
        ),
        (
            normalizers.Sequence(
                [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]
            ),
            TokenizerConfig(unicode_form="NFD", split_cjk=False),
        ),
    ],
)
def test_a_normalizer_says_the_choices(
    normalizer: normalizers.Normalizer, expected: TokenizerConfig, tmp_path: Path
) -> None:
    write_library_file(tmp_path / "tokenizer.json", normalizer)
    assert Tokenizer.load(tmp_path / "tokenizer.json").config == expected


def test_tokenizer_config_overrules_the_normalizer(tmp_path: Path) -> None:
    write_library_file(tmp_path / "tokenizer.json", normalizers.BertNormalizer(lowercase=True))
    settings = {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    config = Tokenizer.load(tmp_path).config
    assert config == TokenizerConfig(lowercase=False, strip_accents=False)


@pytest.mark.parametrize(
    ("words", "lowercase", "strip_accents"),
    [
        (["dog", "##s"], True, True),
        (["Dog", "##s"], False, False),
        (["dog", "한국"], True, False),
        (["d", "##D"] * 20, False, False),
        (["dog"] * 20 + ["COVID"], True, True),  # in the place of an unused row
    ],
)
def test_a_vocabulary_alone_shows_its_case(
    words: list[str], lowercase: bool, strip_accents: bool, tmp_path: Path
) -> None:
    lines = [*VOCABULARY[:5], *words]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*lines, ""]).encode())
    tokenizer = Tokenizer.load(tmp_path / "vocab.txt")
    assert tokenizer.vocabulary == tuple(lines)
    found = (tokenizer.config.lowercase, tokenizer.config.strip_accents)
    assert found == (lowercase, strip_accents)
    chosen = TokenizerConfig(longest_word=9)
    assert Tokenizer.load(tmp_path, chosen).config == chosen


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ([HA, "##\u11ab", "A"], "NFKD"),
        ([HA, "한", "A"], "none"),  # whole syllables can be spelt
        ([HA, "a"], "none"),  # uncased: accents are stripped, and that decomposes syllables
        (["\u1112", "\u1161", "A"], "none"),  # the jamo of an alphabet
    ],
)
def test_decomposed_hangul_in_a_vocabulary_shows_the_unicode_form(
    words: list[str], form: str, tmp_path: Path
) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.config.unicode_form == form
    if form != "none":
        assert tokenizer.tokenize("한 A") == [*words]


@pytest.mark.parametrize(
    ("form", "expected"), [(None, "none"), (normalizers.NFC(), "NFC"), (normalizers.NFD(), "NFD")]
)
def test_a_normalizer_overrules_the_look_of_decomposed_hangul(
    form: normalizers.Normalizer | None, expected: str, tmp_path: Path
) -> None:
    cased = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    normalizer = cased if form is None else normalizers.Sequence([form, cased])
    write_library_file(tmp_path / "tokenizer.json", normalizer)
    value = json.loads((tmp_path / "tokenizer.json").read_text())
    value["model"]["vocab"] |= {HA: len(VOCABULARY), "A": len(VOCABULARY) + 1}
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    assert Tokenizer.load(tmp_path).config.unicode_form == expected


def test_added_tokens_and_empty_rows_keep_their_numbers(tmp_path: Path) -> None:
    write_library_file(tmp_path / "tokenizer.json", normalizers.BertNormalizer())
    value = json.loads((tmp_path / "tokenizer.json").read_text())
    last = len(VOCABULARY)
    value["added_tokens"] = [{"id": last + 1, "content": "<e>", "special": True}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocabulary[last:] == (f"[row {last}]", "<e>")
    assert tokenizer.encode("my<e>", add_special_tokens=False).ids.tolist()[1] == last + 1


@pytest.mark.parametrize("lowercase", [True, False])
def test_added_tokens_that_the_library_finds_otherwise_are_told(
    lowercase: bool, tmp_path: Path
) -> None:
    write_library_file(tmp_path / "tokenizer.json", normalizers.BertNormalizer(lowercase=lowercase))
    native = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    native.add_tokens(["covid", "@USER", "**"])
    native.add_tokens([tokenizers.AddedToken("sars", single_word=True, normalized=False)])
    native.add_special_tokens(["<e>"])
    native.save(str(tmp_path / "tokenizer.json"))
    of_case = "added tokens (covid, @USER) are taken as they are spelt, and in any case by"
    whole = "added tokens (sars) are taken inside of words too, and as whole words alone by"
    told = [note.partition(" the library")[0] for note in Tokenizer.load(tmp_path).notes]
    assert told == [*([of_case] if lowercase else []), whole]
    # What is told is so: the library finds the one, and not the other.
    assert "covid" in native.encode("COVID").tokens or not lowercase
    assert "sars" not in native.encode("xsars").tokens
    # What is saved here is found there as it is here.
    Tokenizer.load(tmp_path).save(tmp_path / "saved")
    assert Tokenizer.load(tmp_path / "saved").notes == ()


LAST = len(VOCABULARY)
OLD_FORM = ("added_tokens.json", lambda rows: rows)
NEW_FORM = (
    "tokenizer_config.json",
    lambda rows: {"added_tokens_decoder": {str(row): {"content": t} for t, row in rows.items()}},
)


@pytest.mark.parametrize(("name", "written"), [OLD_FORM, NEW_FORM])
def test_tokens_added_to_a_vocab_txt_stand_behind_it(name: str, written, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    rows = {"[MASK]": VOCABULARY.index("[MASK]"), "<e>": LAST + 1}
    (tmp_path / name).write_text(json.dumps(written(rows)))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocabulary == (*VOCABULARY, f"[row {LAST}]", "<e>")
    assert tokenizer.config.added_tokens == ("<e>",)
    assert tokenizer.encode("my<e>", add_special_tokens=False).ids.tolist()[1] == LAST + 1


@pytest.mark.parametrize(("name", "written"), [OLD_FORM, NEW_FORM])
def test_a_capital_in_an_added_token_says_nothing_of_the_vocabulary(
    name: str, written, tmp_path: Path
) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY[:20]) + "\n", encoding="utf-8")
    assert Tokenizer.load(tmp_path).config.lowercase
    (tmp_path / name).write_text(json.dumps(written({"<A>": 20, "A": 21})))
    assert Tokenizer.load(tmp_path).config.lowercase


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("added_tokens.json", {"<e>": 7}, r"'<e>' has row 7 .*has '.*do not belong together"),
        ("added_tokens.json", {"<e>": "7"}, r"must give each token its row.*found '<e>': '7'"),
        ("tokenizer_config.json", {"added_tokens_decoder": ["<e>"]}, r"must be an object of rows"),
        (
            "tokenizer_config.json",
            {"bertsmith": {"longest_word": 0}},
            r"tokenizer_config\.json: bertsmith: longest_word must be at least 1",
        ),
    ],
)
def test_files_that_contradict_the_vocabulary_are_named(
    name: str, content: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path)


def test_a_vocabulary_without_special_tokens_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\nmy\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^{tmp_path}: .* of 4 entries lacks \[SEP\], \[MASK"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("model", [models.BPE(), models.Unigram(), models.WordLevel()])
def test_other_models_are_refused(model: models.Model, tmp_path: Path) -> None:
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="expected WordPiece"):
        Tokenizer.load(tmp_path)


def test_other_word_rules_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    write_library_file(path, normalizers.Strip())
    with pytest.raises(ValueError, match="normalizer 'Strip' is none that a BERT has"):
        Tokenizer.load(path)
    write_library_file(path, normalizers.BertNormalizer())
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"pre_tokenizer": {"type": "Whitespace"}}))
    with pytest.raises(ValueError, match="pre_tokenizer is Whitespace"):
        Tokenizer.load(path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
    write_library_file(path, normalizers.BertNormalizer())
    with pytest.raises(ValueError, match="finds words with a dictionary"):
        Tokenizer.load(tmp_path)


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a directory with tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not JSON"):
        Tokenizer.load(tmp_path)


def test_a_choice_of_another_version_is_named(tmp_path: Path) -> None:
    Tokenizer(VOCABULARY).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    value = json.loads(path.read_text())
    value["bertsmith"]["longest_words"] = 9
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=r"bertsmith\.longest_words is no .*mean longest_word\?"):
        Tokenizer.load(tmp_path)


def test_a_token_with_a_line_break_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds a line break"):
        Tokenizer((*VOCABULARY, "a\n")).save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_library_rules_are_written_with_their_word_limit(tmp_path: Path) -> None:
    for config, limit in ((TokenizerConfig(), 200), (TokenizerConfig(library_rules=True), 100)):
        Tokenizer(VOCABULARY, replace(config)).save(tmp_path)
        value = json.loads((tmp_path / "tokenizer.json").read_text())
        assert value["model"]["max_input_chars_per_word"] == limit


def test_a_vocab_txt_stands_only_beside_a_complete_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = Tokenizer([*SPECIAL_TOKENS, "a"])
    tokenizer.save(tmp_path)
    complete = sorted(path.name for path in tmp_path.iterdir())
    write_bytes = files.write_bytes
    for number in range(len(complete)):
        left = iter(range(number))

        def full(path: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError("no space left")
            write_bytes(path, content)

        monkeypatch.setattr(files, "write_bytes", full)
        with pytest.raises(OSError, match="no space"):
            tokenizer.save(tmp_path)
        assert not (tmp_path / "vocab.txt").exists()
    monkeypatch.undo()
    tokenizer.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == complete
