"""The options that name labelled examples, and those that say how a task reads them: as values.

Each begins as None, or empty, so that it is known which were typed: one that the chosen examples
would pass over is refused, and a run's record holds what was asked for and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

Split = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """Where examples come from: one of glue, squad, tagged, choices, texts and task-class."""

    glue: Path | None = None
    """The directory of GLUE's files, as the benchmark hands them out; or nyu-mll/glue (the Hub)."""
    task: str | None = None
    """Of GLUE: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI."""
    squad: Path | None = None
    """Questions about passages: SQuAD's JSON, or a row a question: .csv .tsv .jsonl .parquet."""
    tagged: Path | None = None
    """Words and their tags: CoNLL's columns, lists in .jsonl or .parquet, or a table of words."""
    choices: Path | None = None
    """Questions with choices: SWAG's or ARC's columns, or your own; .csv .tsv .jsonl .parquet."""
    texts: Path | None = None
    """Texts, or pairs, with labels or numbers: .csv, .tsv, .jsonl or .parquet."""
    task_class: str | None = None
    """A task of your own, module:Class, imported from here or from where Python finds it."""
    examples: Path | None = None
    """What the task of your own reads."""

    dev: Path | None = None
    """The file to evaluate on (default: a share of the other, the same in every run)."""
    dev_share: float | None = None
    """The share to evaluate on where no file is given for it (default 0.1)."""
    split_seed: int | None = None
    """Another number, another share (default 0); it is not the seed of the run."""
    skip_malformed: bool = False
    """Leave broken rows out and count them, instead of stopping at the first."""
    header: bool = True
    """Whether the first row of CSV and TSV names the columns; else they are 1, 2, ..."""

    text_columns: tuple[str, ...] = ()
    """Of texts one column or two (default text); of choices what they share (SWAG: sent1)."""
    label_column: str | None = None
    """Of texts and choices (default label; in ARC's files answerKey)."""
    separator: str | None = None
    """Between several labels of one field of CSV and TSV (default a comma)."""
    key_column: str | None = None
    """Ids that must be unique (default: id of questions and of ARC's files); '' for none."""
    begun_column: str | None = None
    """Of choices: a text that each of them goes on with (SWAG: sent2)."""
    choice_columns: tuple[str, ...] = ()
    """A column for each choice, or one of lists (SWAG: ending0 ending1 ending2 ending3)."""
    first_choice: int | None = None
    """What the first is called where labels count choices (default 0, or the label is a text)."""
    word_column: str | None = None
    """Of tagged rows: the column of lists of words (default tokens), of a word a row word."""
    tag_column: str | None = None
    """Of tagged rows the tags (default ner_tags, or tag), of CoNLL's a number (default -1)."""
    sentence_column: str | None = None
    """Of a word a row: equal for those of one sentence, or given at its first (sentence_id)."""
    tag_names: tuple[str, ...] = ()
    """Of tags that are numbers: the names of 0, 1, ..."""
    document_column: str | None = None
    """Of tagged rows: equal for sentences of one document (default: each sentence is one)."""
    one_document: bool = False
    """Read a file of CoNLL's columns that marks no documents as one, not each sentence alone."""
    question_column: str | None = None
    """Of questions in rows (default question)."""
    passage_column: str | None = None
    """Of questions in rows (default context)."""
    answers_column: str | None = None
    """Of questions in rows: a text, or lists of text and answer_start (default answers, answer)."""
    start_column: str | None = None
    """Of questions in rows: the first character of an answer that is a text (answer_start)."""


@dataclass(frozen=True, kw_only=True)
class TaskValues:
    """How the task reads and scores its examples; a model's own are kept with it."""

    problem: Literal["single_label", "multi_label", "regression"] | None = None
    """Of texts: one label of several (the default), any number of labels, or a number."""
    metrics: tuple[str, ...] = ()
    """Of texts: what is scored; the first one chooses the best model."""
    context: Literal["document", "sentence"] | None = None
    """What a tagged word may look at (default document, as far as a window reaches)."""
    stride_tokens: int | None = None
    """Of tagging: from one window's start to the next one's (default half a window)."""
    doc_stride: int | None = None
    """Of passages: tokens from one window's start to the next one's (default 128)."""
    max_question_tokens: int | None = None
    """The end of a longer question is not read, and counted (default 64)."""
    max_answer_tokens: int | None = None
    """The longest answer (default 30)."""
    num_best: int | None = None
    """Answers that are listed beside the best one (default 20)."""
    squad_version: Literal["1.1", "2.0", "korquad"] | None = None
    """Whose evaluator scores; 2.0 may answer nothing (default: what the files are)."""


def given(options: TaskFiles | TaskValues) -> dict[str, object]:
    """The options that were typed, as JSON values, paths made absolute where they lead anywhere."""
    found: dict[str, object] = {}
    for field in fields(options):
        value = vars(options)[field.name]
        if value != field.default:
            found[field.name] = _plain(value)
    return found


def options_of(source: Mapping[str, Any]) -> tuple[TaskFiles, TaskValues]:
    """What `given` gave of both, as values again. Raises TypeError for a name of neither."""
    names = {field.name for field in fields(TaskValues)}
    read = {name: _typed(name, value) for name, value in source.items()}
    return (
        TaskFiles(**{name: value for name, value in read.items() if name not in names}),
        TaskValues(**{name: value for name, value in read.items() if name in names}),
    )


def typed_words(source: Mapping[str, Any]) -> list[str]:
    """The command line that names these examples."""
    words: list[str] = []
    for name, value in source.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            values = value if isinstance(value, list) else [value]
            words += [f"--{option}", *map(str, values)]
    return words


_PATHS = ("glue", "squad", "tagged", "choices", "texts", "examples", "dev")


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value.resolve()) if value.exists() else value.as_posix()
    return list(value) if isinstance(value, tuple) else value


def _typed(name: str, value: Any) -> Any:
    if name in _PATHS:
        return Path(value)
    return tuple(value) if isinstance(value, list) else value
