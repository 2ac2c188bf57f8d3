"""`--tagged`: words and their tags -> a tag for every word."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.commands.sources.files import SHARED_OPTIONS, learned_header
from bertsmith.commands.sources.source import chosen_values, require_read, wrong_kind
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.reading import tables
from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks.own import words
from bertsmith.tasks.own.files import FileOptions, OwnFile
from bertsmith.tasks.own.word_columns import WordColumns, layout_of, word_rows_of
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.tag import EncodedWords, TagConfig
from bertsmith.tasks.tag_scheme import TagScheme, is_in_characters
from bertsmith.tasks.task import Tagging, Task

_Tagger = Task[TaggedSentence, EncodedWords, list[str]]
_OF_ROWS = ("word_column", "tag_names", "document_column")
_OPTIONS = (
    *SHARED_OPTIONS, "header", *_OF_ROWS, "sentence_column", "tag_column", "one_document",
)  # fmt: skip


@dataclass(frozen=True)
class TaggedFiles:
    """Files of words and tags."""

    files: TaskFiles
    values: TaskValues

    option = "tagged"
    max_tokens = TagConfig.max_tokens

    def __post_init__(self) -> None:
        """Refuses options that would be passed over."""
        require_read(self.files, self.values, _OPTIONS, self.option, "context stride_tokens")

    def read(self, path: Path, task: object) -> OwnFile[TaggedSentence]:
        """As `words.read`."""
        files = self.files
        options = FileOptions(has_header=files.header, skip_malformed=files.skip_malformed)
        return words.read(path, self._columns(path), options)

    def contents(self, examples: Sequence[TaggedSentence]) -> list[str]:
        """Their documents, or where none are marked the sentences."""
        return words.contents(examples)

    def begin(self, files: Sequence[OwnFile[TaggedSentence]], max_tokens: int) -> Tagging:
        """The tags of the file to train on."""
        config = TagConfig(
            max_tokens=max_tokens, **chosen_values(self.values, "context", "stride_tokens")
        )
        scheme = TagScheme.of(files[0].examples)
        if len(scheme.labels) == 1:
            raise ValueError(
                f"{files[0].path}: all words have the tag {scheme.labels[0]!r}, so there is "
                f"nothing to learn; is it the right column?"
            )
        return Tagging(scheme=scheme, config=config)

    def fitting(self, task: object) -> Tagging:
        """The task of a model that tags."""
        if not isinstance(task, Tagging):
            raise wrong_kind(task, self.option, "words with tags")
        return task

    def to_json(self, task: _Tagger, name: str) -> Mapping[str, object]:
        """As `stored.task_json`."""
        path = self.files.tagged
        columns = self._columns(path)
        has_header = path is None or not columns.sentence or learned_header(path, self.files)
        learned = Learned(name=name, columns=dataclasses.asdict(columns), has_header=has_header)
        return task_json(self.fitting(task), learned)

    def answerable(self, examples: Sequence[TaggedSentence], task: _Tagger) -> Tagging:
        """As it is. Raises ValueError for an unknown tag, and for words of another kind."""
        own = self.fitting(task)
        scheme = own.scheme
        for example in examples:
            scheme.tags_of(example)
        by_character = TagScheme.of(examples).is_by_character or (
            scheme.is_by_character and is_in_characters(examples)  # of which none is a blank
        )
        if by_character != scheme.is_by_character:
            units = ("words", "characters, blanks among them,")
            raise ValueError(
                f"{examples[0].place}: the file tags {units[by_character]} and the task "
                f"{units[scheme.is_by_character]}: both files must be of one kind"
            )
        return own

    def balance(self, examples: Sequence[TaggedSentence], task: _Tagger) -> str:
        """How often each kind of entity occurs, or each tag."""
        return words.balance(examples, self.fitting(task).scheme)

    def labels(self, examples: Sequence[TaggedSentence], task: _Tagger) -> list[tuple[str, ...]]:
        """Kinds of entities, or tags."""
        return words.labels(examples, self.fitting(task).scheme)

    def notes(self, file: OwnFile[TaggedSentence], task: _Tagger) -> Sequence[str]:
        """What was read otherwise than it stands, and documents, words, repetitions."""
        return words.summary(file, None).notes

    def set_notes(
        self, train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence]
    ) -> Sequence[str]:
        """None."""
        return ()

    def _columns(self, path: Path | None) -> WordColumns:
        assert path is not None
        files = self.files
        layout = layout_of(path, files.sentence_column or "", has_header=files.header)
        if layout == "lines":
            return self._of_lines(path)
        if files.one_document:
            raise ValueError(
                f"{path}: --one-document is for CoNLL's columns; rows of one document have an "
                f"equal --document-column"
            )
        usual = WordColumns()
        if layout == "words":
            usual = word_rows_of(tables.columns(path, has_header=files.header))
        return WordColumns(
            words=files.word_column or usual.words,
            tags=files.tag_column or usual.tags,
            sentence=files.sentence_column or usual.sentence,
            tag_names=files.tag_names,
            document=files.document_column or "",
        )

    def _of_lines(self, path: Path) -> WordColumns:
        files = self.files
        typed = [name for name in _OF_ROWS if vars(files)[name]]
        if option := typed[0] if typed else "" if files.header else "no_header":
            raise ValueError(
                f"{path}: --{option.replace('_', '-')} is for .jsonl and .parquet, and for a table "
                f"with a --sentence-column; of CoNLL's columns the first holds the words, and "
                f"--tag-column is a number"
            )
        return WordColumns(tag_column=_number(files.tag_column), is_one_document=files.one_document)


def _number(column: str | None) -> int:
    try:
        return WordColumns.tag_column if column is None else int(column)
    except ValueError:
        raise ValueError(
            f"--tag-column of CoNLL's columns is a number, from 0, or from the end below it (-1, "
            f"-2, ...), found {column!r}"
        ) from None
