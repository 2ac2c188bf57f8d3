"""A file of words and their tags -> sentences to tag.

CoNLL's columns and files of one character a line, as `reading.conll` has them; a table of a word a
row, as `word_rows` has it; or JSONL and Parquet, a row a sentence with a list of words and one of
tags, by name or by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertsmith.reading.conll import (
    DOCUMENT_START,
    TaggedSentence,
    marks_documents,
    tagged_sentences,
)
from bertsmith.reading.counted import counted
from bertsmith.reading.hub_features import class_names
from bertsmith.reading.tables import Row, table_format
from bertsmith.tasks.entities import entities
from bertsmith.tasks.label_lists import listed
from bertsmith.tasks.own import mistaken
from bertsmith.tasks.own.bio import no_bio, require_bio, two_dialects, two_schemes
from bertsmith.tasks.own.files import (
    FileOptions,
    LeftOut,
    OwnFile,
    UnusableRow,
    read_rows,
    whole,
)
from bertsmith.tasks.own.labels import Spelling
from bertsmith.tasks.own.split import content_of
from bertsmith.tasks.own.summary import Summary, lengths_of, num_repeated, summarised
from bertsmith.tasks.own.word_columns import WordColumns, layout_of
from bertsmith.tasks.own.word_rows import WordRows
from bertsmith.tasks.tag_scheme import TagScheme


def read(
    path: Path, columns: WordColumns | None = None, options: FileOptions | None = None
) -> OwnFile[TaggedSentence]:
    """The sentences of a file; those without words are left out and told.

    A file that `columns` gives a column of sentences has a word a row. Raises as
    `tagged_sentences`, `WordRows` and `read_rows` do, and ValueError, with the place, for a tag
    that is no BIO among others that are.
    """
    columns, options = columns or WordColumns(), options or FileOptions()
    if columns.sentence:
        file = _of_word_rows(path, columns, options)
    elif layout_of(path) == "sentences":
        file = _read_rows(path, columns, options)
    else:
        file = _of_conll(path, columns, options)
    if options.skip_malformed:
        file = _without_wrong_tags(file)
    require_bio(file.examples)
    told = (two_dialects(file.examples), two_schemes(file.examples))
    return replace(file, notes=(*file.notes, *filter(None, told)))


def words_of(value: object, place: str) -> tuple[str, ...]:
    """The words of a row's list.

    Raises ValueError, with the place, for what is none; UnusableRow for an empty one.
    """
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{place}: expected a list of words, found {value!r:.60}")
    if not value:
        raise UnusableRow(f"{place}: no words")
    for number, word in enumerate(value):
        if not word:
            raise ValueError(f"{place}: word {number + 1} has no characters")
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{place}: word {number + 1} holds half a character: {word!r:.40}"
            ) from error
    return tuple(value)


def contents(examples: Sequence[TaggedSentence]) -> list[str]:
    """What keeps sentences on one side of a split: their document's, a line a sentence.

    In a file of one document a sentence's own.
    """
    of_sentence = [content_of(" ".join(example.words)) for example in examples]
    of_document: dict[int, list[str]] = {}
    for example, content in zip(examples, of_sentence, strict=True):
        of_document.setdefault(example.document, []).append(content)
    if len(of_document) == 1:
        return of_sentence
    joined = {document: "\n".join(parts) for document, parts in of_document.items()}
    return [joined[example.document] for example in examples]


def balance(examples: Sequence[TaggedSentence], scheme: TagScheme) -> str:
    """A line on how often each kind of entity occurs, or each tag."""
    counts = Counter(kind for kinds in labels(examples, scheme) for kind in kinds)
    told = listed(dict(counts.most_common()), counts.total())
    return f"{counts.total():,} {'entities' if scheme.is_of_entities else 'tags'}: {told}"


def labels(examples: Sequence[TaggedSentence], scheme: TagScheme) -> list[tuple[str, ...]]:
    """Of each sentence the kinds of its entities, or its tags, as often as they stand there."""
    of_examples = (scheme.tags_of(example) for example in examples)
    if not scheme.is_of_entities:
        return [tuple(tags) for tags in of_examples]
    return [tuple(each.kind for each in entities(tags)) for tags in of_examples]


def summary(file: OwnFile[TaggedSentence], scheme: TagScheme | None) -> Summary:
    """What was read; without a scheme nothing is said of tags.

    Raises ValueError as `TagScheme.tags_of` does.
    """
    documents = {example.document for example in file.examples}
    repeated = num_repeated([content_of(" ".join(each.words)) for each in file.examples])
    num_words = sum(len(example.words) for example in file.examples)
    return summarised(
        file,
        balance=balance(file.examples, scheme) if scheme else "",
        lengths=[lengths_of("words", (len(example.words) for example in file.examples))],
        notes=[
            f"{counted(num_words, 'word')}; documents: {len(documents):,}",
            *([f"{counted(repeated, 'sentence')} met before in the file"] if repeated else []),
        ],
    )


def _of_conll(path: Path, columns: WordColumns, options: FileOptions) -> OwnFile[TaggedSentence]:
    faults = LeftOut(options)
    mistaken.require_lines(path)
    sentences: list[TaggedSentence] = []

    def malformed(fault: str) -> None:
        faults.malformed(fault if sentences else f"{fault} ({mistaken.NO_WORDS})")

    for sentence in tagged_sentences(path, columns.tag_column, malformed):
        sentences.append(sentence)
    if columns.tags is not None and sentences:
        mistaken.require_tags(sentences[0])
    if columns.tags is None:
        sentences = [replace(each, tags=None) for each in sentences]
    notes = []
    if len(sentences) > 1 and not columns.is_one_document and not marks_documents(path):
        sentences = [replace(each, document=at) for at, each in enumerate(sentences)]
        notes.append(f"no {DOCUMENT_START} marks a document: each sentence is read alone")
    return whole(path, sentences, faults.faults, notes)


def _of_word_rows(
    path: Path, columns: WordColumns, options: FileOptions
) -> OwnFile[TaggedSentence]:
    faults = LeftOut(options)
    named = (columns.sentence, columns.words, columns.tags)
    mistaken.require_word_columns(path, [each for each in named if each], options.has_header)
    if not columns.tag_names and columns.tags and table_format(path) == "parquet":
        columns = replace(columns, tag_names=class_names(path, columns.tags))
    reader = WordRows(path, columns, has_header=options.has_header)
    sentences = list(reader.sentences(faults.malformed))
    return whole(path, sentences, faults.faults, reader.notes())


def _without_wrong_tags(file: OwnFile[TaggedSentence]) -> OwnFile[TaggedSentence]:
    """The same without the sentences that hold a tag that is no BIO among others that are."""
    faults = no_bio(file.examples)
    kept = [each for each in file.examples if each.place not in faults]
    return whole(file.path, kept, (*file.left_out, *faults.values()), file.notes)


def _read_rows(path: Path, columns: WordColumns, options: FileOptions) -> OwnFile[TaggedSentence]:
    names = columns.tag_names
    if not names and columns.tags and table_format(path) == "parquet":
        names = class_names(path, columns.tags)
    spelling = Spelling(names)
    documents: dict[str, int] = {}

    def sentence(row: Row) -> TaggedSentence:
        words = words_of(row.values[columns.words], row.place)
        tags = None
        if columns.tags is not None:
            tags = _tags(row.values[columns.tags], len(words), spelling, bool(names), row.place)
        name = str(row.values[columns.document]) if columns.document else row.place
        document = documents.setdefault(name, len(documents))
        return TaggedSentence(place=row.place, words=words, tags=tags, document=document)

    wanted = [name for name in (columns.words, columns.tags, columns.document) if name]
    mistaken.require_columns(path, [name for name in (columns.words, columns.tags) if name])
    file = read_rows(path, wanted, sentence, options)
    return replace(file, notes=(*file.notes, *spelling.notes()))


def _tags(
    value: object, num_words: int, spelling: Spelling, has_names: bool, place: str
) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{place}: expected a list of tags, found {value!r:.60}")
    if len(value) != num_words:
        num_tags = counted(len(value), "tag")
        raise ValueError(f"{place}: {num_tags} for {counted(num_words, 'word')}")
    if not has_names and any(isinstance(tag, int) for tag in value):
        raise ValueError(
            f"{place}: the tags are numbers, and nothing says what they mean: give the names of 0, "
            f"1, ... in their order with --tag-names"
        )
    return tuple(spelling.label(tag, place) for tag in value)
