from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.text.original import basic_tokens, wordpiece_tokens
from tests.text.texts import NASTY_TEXTS, VOCABULARY

UNCASED = TokenizerConfig()
CASED = TokenizerConfig(lowercase=False, strip_accents=False)
CONFIGS = st.builds(
    TokenizerConfig,
    lowercase=st.booleans(),
    strip_accents=st.booleans(),
    split_cjk=st.booleans(),
    unicode_form=st.sampled_from(["none", "NFC", "NFD", "NFKC", "NFKD"]),
    longest_word=st.sampled_from([3, 200]),
)
KOREAN = "피곤해 보이네. 어제 늦게 잤니?"


def original_tokens(text: str, tokenizer: Tokenizer) -> list[str]:
    config = tokenizer.config
    words = basic_tokens(
        text,
        lowercase=config.lowercase,
        strip_accents=config.strip_accents,
        split_cjk=config.split_cjk,
        form=config.unicode_form,
    )
    return wordpiece_tokens(words, set(tokenizer.vocabulary), config.longest_word)


def tokens_and_texts(tokenizer: Tokenizer, text: str) -> list[tuple[str, str]]:
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return [
        (tokenizer.token_of(id), text[start:end])
        for id, (start, end) in zip(encoding.ids, encoding.spans, strict=True)
    ]


@settings(max_examples=600)
@given(NASTY_TEXTS, CONFIGS)
def test_tokens_are_the_originals(text: str, config: TokenizerConfig) -> None:
    tokenizer = Tokenizer(VOCABULARY, config)
    assert tokenizer.tokenize(text) == original_tokens(text, tokenizer)


@settings(max_examples=300)
@given(NASTY_TEXTS, CONFIGS)
def test_spans_lie_in_the_text_in_order(text: str, config: TokenizerConfig) -> None:
    config = replace(config, unicode_form="none", longest_word=200)
    encoding = Tokenizer(VOCABULARY, config).encode(text, add_special_tokens=False)
    starts, ends = encoding.spans[:, 0], encoding.spans[:, 1]
    assert (starts >= 0).all()
    assert (starts < ends).all()
    assert (ends <= len(text)).all()
    assert (starts[1:] >= starts[:-1]).all()
    assert (encoding.words[1:] - encoding.words[:-1] <= 1).all()


@settings(max_examples=300)
@example("\U0001d165\U0001d16d\u302e", TokenizerConfig(lowercase=False))  # marks that change places
@given(NASTY_TEXTS.map(lambda text: text.replace("Σ", "s")), CONFIGS)
def test_a_words_span_holds_that_word(text: str, config: TokenizerConfig) -> None:
    config = replace(config, unicode_form="none")
    tokenizer = Tokenizer(VOCABULARY, config)
    for word, (start, end) in tokenizer.words(text):
        alone = [word for word, _ in tokenizer.words(text[start:end])]
        # One character may become several words: a compatibility sign between two marks.
        assert word in alone


WITH_ENTRIES = st.lists(NASTY_TEXTS | st.sampled_from(["[MASK]", "<e1>"]), max_size=4).map("".join)


@settings(max_examples=100)
@given(
    st.lists(WITH_ENTRIES | st.tuples(WITH_ENTRIES, WITH_ENTRIES), max_size=5),
    CONFIGS,
    st.booleans(),
    st.booleans(),
)
def test_batches_equal_texts_one_by_one(
    texts: list[str | tuple[str, str]], config: TokenizerConfig, special: bool, framed: bool
) -> None:
    config = replace(config, special_tokens_in_text=special, added_tokens=("<e1>",))
    tokenizer = Tokenizer((*VOCABULARY, "<e1>"), config)
    batch = tokenizer.encode_batch(texts, add_special_tokens=framed)
    for text, found in zip(texts, batch, strict=True):
        sides = (text, None) if isinstance(text, str) else text
        alone = tokenizer.encode(*sides, add_special_tokens=framed)
        for array, expected in zip(vars(found).values(), vars(alone).values(), strict=True):
            assert array.dtype == expected.dtype == np.int32
            np.testing.assert_array_equal(array, expected)


@settings(max_examples=100)
@given(st.lists(WITH_ENTRIES, max_size=5), CONFIGS, st.booleans())
def test_ids_alone_are_those_of_encode(
    texts: list[str], config: TokenizerConfig, special: bool
) -> None:
    tokenizer = Tokenizer(VOCABULARY, replace(config, special_tokens_in_text=special))
    flat, counts = tokenizer.ids(texts)
    alone = [tokenizer.encode(text, add_special_tokens=False).ids.tolist() for text in texts]
    assert counts.tolist() == [len(ids) for ids in alone]
    assert flat.tolist() == [id for ids in alone for id in ids]


def test_a_pair_is_laid_out_as_in_figure_2() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    encoding = tokenizer.encode("my dog is cute", "he likes playing")
    tokens = [tokenizer.token_of(id) for id in encoding.ids]
    assert " ".join(tokens) == "[CLS] my dog is cute [SEP] he likes play ##ing [SEP]"
    assert encoding.segments.tolist() == [0] * 6 + [1] * 5
    assert encoding.words.tolist() == [-1, 0, 1, 2, 3, -1, 0, 1, 2, 2, -1]
    assert encoding.spans.tolist()[7:] == [[3, 8], [9, 13], [13, 16], [0, 0]]
    (batched,) = tokenizer.encode_batch([("my dog is cute", "he likes playing")])
    assert batched.ids.tolist() == encoding.ids.tolist()


def test_an_empty_text_has_no_tokens_and_its_frame_two() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert tokenizer.encode("").ids.tolist() == [tokenizer.cls_id, tokenizer.sep_id]
    assert tokenizer.encode(" \u0301", add_special_tokens=False).spans.shape == (0, 2)
    flat, counts = tokenizer.ids([])
    assert (flat.tolist(), counts.tolist()) == ([], [])


def test_words_of_200_characters_are_read_and_longer_ones_unknown() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert len(tokenizer.tokenize("x" * 200)) == 101
    assert tokenizer.tokenize("x" * 201) == ["[UNK]"]
    library = Tokenizer(VOCABULARY, replace(UNCASED, library_rules=True))
    assert library.tokenize("x" * 101) == ["[UNK]"]


def test_extension_e_ideographs_are_split_and_private_characters_kept() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert tokenizer.tokenize("a\U0002b820b") == ["a", "\U0002b820", "b"]
    assert tokenizer.tokenize("a\ue000b") == ["a", "##\ue000", "##b"]
    library = Tokenizer(VOCABULARY, replace(UNCASED, library_rules=True))
    assert library.tokenize("a\U0002b820b") == ["a", "##\U0002b820", "##b"]
    assert library.tokenize("a\ue000b") == ["a", "##b"]


def test_final_sigma_has_its_form() -> None:
    assert Tokenizer(VOCABULARY).tokenize("ΑΣ") == ["α", "##ς"]
    library = Tokenizer(VOCABULARY, replace(UNCASED, library_rules=True))
    assert library.tokenize("ΑΣ") == ["α", "##σ"]


def test_special_tokens_in_text_are_characters_unless_asked() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert tokenizer.tokenize("my [MASK].") == ["my", "[", "mask", "]", "."]
    encoding = tokenizer.encode("my [MASK].", "[SEP]", special_tokens_in_text=True)
    tokens = [tokenizer.token_of(id) for id in encoding.ids]
    assert tokens == ["[CLS]", "my", "[MASK]", ".", "[SEP]", "[SEP]", "[SEP]"]
    assert encoding.spans[2].tolist() == [3, 9]
    assert encoding.words.tolist() == [-1, 0, 1, 2, -1, 0, -1]
    (batched,) = tokenizer.encode_batch([("my [MASK].", "[SEP]")], special_tokens_in_text=True)
    assert batched.ids.tolist() == encoding.ids.tolist()
    always = Tokenizer(VOCABULARY, replace(UNCASED, special_tokens_in_text=True))
    assert always.tokenize("my[MASK]") == ["my", "[MASK]"]
    assert always.encode("[MASK]", special_tokens_in_text=False).ids.size == 5


def test_added_tokens_are_taken_whole() -> None:
    tokenizer = Tokenizer((*VOCABULARY, "<e1>", "<e1>x"), replace(UNCASED, added_tokens=("<e1>",)))
    assert tokenizer.tokenize("a<e1>dog") == ["a", "<e1>", "dog"]
    encoding = tokenizer.encode("<e1><e1> my<e1>", "", add_special_tokens=False)
    assert encoding.spans.tolist() == [[0, 4], [4, 8], [9, 11], [11, 15]]
    assert encoding.words.tolist() == [0, 1, 2, 3]


def test_spans_are_in_the_users_text_after_accents_and_case_changed_lengths() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert tokens_and_texts(tokenizer, "İe\u0301 É\u0323.") == [
        ("i", "İ"), ("##e", "e\u0301"), ("e", "É\u0323"), (".", "."),
    ]  # fmt: skip
    cased = Tokenizer(VOCABULARY, replace(CASED, unicode_form="NFKC"))
    assert tokens_and_texts(cased, "① \u1112\u1161\u11ab국") == [
        ("1", "①"), ("한국", "\u1112\u1161\u11ab국"),
    ]  # fmt: skip


def test_decoding_sets_blanks_as_english_does() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    text = "my dog is (he likes playing) cute, don't he? [he likes]!"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    framed = tokenizer.decode(tokenizer.encode("my").ids, skip_special_tokens=False)
    assert framed == "[CLS] my [SEP]"
    with pytest.raises(ValueError, match=f"token id {len(VOCABULARY)} is outside the vocabulary"):
        tokenizer.decode([len(VOCABULARY)])


def test_decomposed_hangul_is_composed_in_decoding() -> None:
    for config in (UNCASED, replace(CASED, unicode_form="NFKD")):
        tokenizer = Tokenizer(VOCABULARY, config)
        ids = tokenizer.encode(KOREAN).ids
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(ids) == KOREAN


def test_a_lone_surrogate_is_an_unknown_word() -> None:
    assert Tokenizer(VOCABULARY).tokenize("my \ud800 dog") == ["my", "[UNK]", "dog"]


def test_a_vocabulary_without_special_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lacks \[SEP\], \[MASK\]"):
        Tokenizer(["[PAD]", "[UNK]", "[CLS]", "a"])


def test_facts_of_the_vocabulary() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert tokenizer.special_ids == frozenset(range(5))
    assert (tokenizer.id_of("dog"), tokenizer.id_of("cat")) == (VOCABULARY.index("dog"), None)
    assert tokenizer.is_continuation.tolist() == [t.startswith("##") for t in VOCABULARY]
    assert tokenizer.normalize("My  DOG'S") == "my dog ' s"


def test_pickled_is_small_and_equal() -> None:
    tokenizer = Tokenizer(VOCABULARY, replace(CASED, longest_word=7))
    data = pickle.dumps(tokenizer)
    copy = pickle.loads(data)
    assert len(data) < 20 * len(VOCABULARY)
    assert copy.fingerprint == tokenizer.fingerprint
    assert copy.tokenize("my dog É") == tokenizer.tokenize("my dog É")


def test_the_fingerprint_depends_on_vocabulary_and_config() -> None:
    prints = {
        Tokenizer(VOCABULARY).fingerprint,
        Tokenizer(VOCABULARY[:-1]).fingerprint,
        Tokenizer(VOCABULARY, CASED).fingerprint,
        Tokenizer(list(VOCABULARY)).fingerprint,
    }
    assert len(prints) == 3


@pytest.fixture
def data() -> Path:
    return Path(os.environ["BERTSMITH_DATA"])


@pytest.mark.data
def test_the_golden_tokenisations_are_ours(data: Path) -> None:
    tokenizer = Tokenizer.load(data / "vocab/bert-base-uncased")
    with gzip.open(data / "golden/bert_base_uncased_squad_questions.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 7753
    flat, counts = tokenizer.ids([row["original"] for row in rows])
    assert flat.tolist() == [id for row in rows for id in row["ids"]]
    assert counts.tolist() == [len(row["ids"]) for row in rows]
    for row in rows:
        assert [word for word, _ in tokenizer.words(row["original"])] == row["basic"]


@pytest.mark.data
@pytest.mark.parametrize("vocabulary", ["bert-base-uncased", "kr-bert-char"])
@pytest.mark.parametrize("corpus", ["enwiki-2015-AA", "kowiki-2020-AA00-59", "gutenberg-books"])
def test_real_text_is_tokenised_as_by_the_original(
    data: Path, vocabulary: str, corpus: str
) -> None:
    tokenizer = Tokenizer.load(data / "vocab" / vocabulary)
    lines = [line for line in read_start(data / "corpora", corpus).splitlines() if line.strip()]
    encodings = tokenizer.encode_batch(lines, add_special_tokens=False)
    for line, encoding in zip(lines, encodings, strict=True):
        tokens = [tokenizer.token_of(id) for id in encoding.ids]
        assert tokens == original_tokens(line, tokenizer)


def read_start(corpora: Path, name: str, characters: int = 30_000) -> str:
    (path,) = corpora.glob(f"*/{name}.*")
    if ".tar" not in path.name:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            return file.read(characters)
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                return content.read(characters).decode("utf-8", errors="ignore")
    raise AssertionError(f"no book in {path}")


@pytest.mark.data
def test_korean_survives_a_korean_vocabulary(data: Path) -> None:
    for name in ("kr-bert-char", "kr-bert-subchar"):
        tokenizer = Tokenizer.load(data / "vocab" / name)
        assert not tokenizer.config.strip_accents
        encoding = tokenizer.encode(KOREAN)
        assert tokenizer.unk_id not in encoding.ids
        assert tokenizer.decode(encoding.ids) == KOREAN
