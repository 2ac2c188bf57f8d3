"""Every word gets one tag, from the window where it sees most, in any length of document."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bertsmith.reading.conll import TaggedSentence, tagged_sentences
from bertsmith.tasks.tag import TagConfig, decode, encode
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Tagging
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["john", "smith", "##son", "lives", "in", "york", "new", ".", "u", "s"]
KOREAN = ["서울", "##에", "##서", "간", "##다"]
TOKENIZER = Tokenizer(
    [*SPECIAL, *WORDS, *KOREAN], TokenizerConfig(lowercase=True, strip_accents=False)
)


def _sentence(words: str, tags: str | None, document: int = 0) -> TaggedSentence:
    split = None if tags is None else tuple(tags.split())
    return TaggedSentence(place="f:1", words=tuple(words.split()), tags=split, document=document)


def _characters(text: str, tags: str) -> TaggedSentence:
    return TaggedSentence(place="f:1", words=tuple(text), tags=tuple(tags.split()), document=0)


SENTENCES = [
    _sentence("John Smithson lives", "I-PER I-PER O"),
    _sentence("in New York .", "O I-LOC I-LOC O"),
    _sentence("U.S. . \u200b", "I-LOC O O", document=1),
]


def test_labels_are_one_dialect_of_bio_or_what_the_file_says() -> None:
    scheme = TagScheme.of(SENTENCES)
    assert scheme.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert scheme.tags_of(SENTENCES[1]) == ["O", "B-LOC", "I-LOC", "O"]
    speech = TagScheme.of([_sentence("in York", "IN NNP")])
    assert (speech.labels, speech.is_of_entities) == (("IN", "NNP"), False)


def test_a_document_is_read_together_and_scored_at_first_tokens() -> None:
    encoded = encode(SENTENCES, TOKENIZER, TagScheme.of(SENTENCES), TagConfig())
    read = [[TOKENIZER.vocabulary[id] for id in item.token_ids] for item in encoded.labelled.items]
    assert read[0][:5] == ["[CLS]", "john", "smith", "##son", "lives"]
    assert len(read) == 2
    assert encoded.labelled.rows is not None
    assert encoded.labelled.rows[0].tolist() == [1, 2, 4, 5, 6, 7, 8]
    assert encoded.labelled.targets[0].tolist() == [3, 4, 0, 0, 1, 2, 0]
    # The word of no character that is kept has no token, and is not scored.
    assert [words.tolist() for words in encoded.words] == [[0, 1, 2, 3, 4, 5, 6], [7, 8]]
    alone = encode(SENTENCES, TOKENIZER, TagScheme.of(SENTENCES), TagConfig(context="sentence"))
    assert len(alone.labelled.items) == 3


@pytest.mark.parametrize("context", ["document", "sentence"])
@pytest.mark.parametrize("max_tokens", [3, 4, 5, 8, 512])
def test_gold_scores_give_every_word_its_tag_in_windows_of_any_size(
    context: str, max_tokens: int
) -> None:
    scheme = TagScheme.of(SENTENCES)
    config = TagConfig(context=context, max_tokens=max_tokens)  # type: ignore[arg-type]
    encoded = encode(SENTENCES, TOKENIZER, scheme, config)
    assert max(len(item.token_ids) for item in encoded.labelled.items) <= max_tokens
    assert sorted(np.concatenate(encoded.words)) == list(range(9))
    scores = [np.eye(len(scheme.labels))[target] for target in encoded.labelled.targets]
    tags = decode(SENTENCES, encoded, scores, scheme)
    assert tags == [list(scheme.tags_of(sentence)) for sentence in SENTENCES]
    assert Tagging(scheme=scheme).score(SENTENCES, tags)["f1"] == 1.0


def test_characters_inside_a_token_and_blanks_inside_a_name_go_on() -> None:
    # Tokens: 서울 ##에 ##서, then 간 ##다.
    sentence = _characters("서울 서울에 간다", "B-LC I-LC I-LC I-LC I-LC O O O O")
    scheme = TagScheme.of([sentence])
    encoded = encode([sentence], TOKENIZER, scheme, TagConfig())
    assert np.concatenate(encoded.words).tolist() == [0, 3, 5, 7, 8]
    assert encoded.num_hidden == 0
    scores = [np.eye(len(scheme.labels))[target] for target in encoded.labelled.targets]
    assert decode([sentence], encoded, scores, scheme) == [list(sentence.tags or ())]
    # A name that ends inside a token cannot be told from one that goes on: it is counted.
    cut = _characters("서울", "B-LC O")
    assert encode([cut], TOKENIZER, scheme, TagConfig()).num_hidden == 1


def test_sentences_without_tags_are_read_without_targets() -> None:
    scheme = TagScheme.of(SENTENCES)
    encoded = encode([_sentence("John lives", None)], TOKENIZER, scheme, TagConfig())
    assert list(encoded.labelled.targets) == []
    with pytest.raises(ValueError, match="f:1: no tags"):
        TagScheme.of([_sentence("John", None)])


def test_a_tag_that_was_never_learned_is_refused_with_its_word() -> None:
    with pytest.raises(
        ValueError, match=r"f:1: word 2 \('York'\) has the tag 'I-ORG', none of.*learn it"
    ):
        TagScheme.of(SENTENCES).tags_of(_sentence("in York", "O I-ORG"))


@pytest.mark.parametrize(("max_tokens", "stride"), [(2, 0), (10, 9), (10, -1)])
def test_windows_that_leave_words_out_are_refused(max_tokens: int, stride: int) -> None:
    with pytest.raises(ValueError, match="stride_tokens must be in"):
        TagConfig(max_tokens=max_tokens, stride_tokens=stride)


def test_other_tags_are_scored_by_word() -> None:
    gold = [_sentence("in York", "IN NNP")]
    assert Tagging(scheme=TagScheme.of(gold)).score(gold, [["IN", "IN"]]) == {"accuracy": 0.5}


@pytest.mark.data
@pytest.mark.parametrize("context", ["document", "sentence"])
def test_gold_scores_of_conll_give_its_tags_back(context: str) -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    tokenizer = Tokenizer.load(data / "vocab/bert-base-uncased/vocab.txt")
    sentences = list(tagged_sentences(data / "conll2003/eng.testa.gz"))
    scheme = TagScheme.of(sentences)
    config = TagConfig(context=context, max_tokens=128)  # type: ignore[arg-type]
    encoded = encode(sentences, tokenizer, scheme, config)
    scores = [np.eye(len(scheme.labels))[target] for target in encoded.labelled.targets]
    tags = decode(sentences, encoded, scores, scheme)
    assert sum(map(len, tags)) == sum(len(words) for words in encoded.words) == 51_362
    assert Tagging(scheme=scheme).score(sentences, tags)["f1"] == 1.0
