"""Where things stood in the rows that a model learned from -> options that name the same columns.

Other files are mostly laid out as the first ones were. What is typed wins, and a column that the
other file has not is none to go by: it is then read as without a memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.tasks.own import choices
from bertsmith.tasks.own.choices import ChoiceColumns
from bertsmith.tasks.own.question_rows import QuestionColumns
from bertsmith.tasks.own.questions import is_squad_json
from bertsmith.tasks.own.texts import TextColumns
from bertsmith.tasks.own.word_columns import (
    WordColumns,
    is_word_table,
    layout_of,
    word_rows_of,
)
from bertsmith.tasks.stored import Learned

Group = Mapping[str, str]
"""Fields of a kind's columns, each with its option; they are taken together or not at all."""

_GROUPS: dict[str, tuple[Group, ...]] = {
    "texts": (
        {"texts": "text_columns"},
        {"label": "label_column"},
        {"separator": "separator"},
        {"key": "key_column"},
    ),
    "choices": (
        {"text": "text_columns", "begun": "begun_column", "choices": "choice_columns"},
        {"label": "label_column"},
        {"first_number": "first_choice"},
        {"key": "key_column"},
    ),
    "squad": (
        {"question": "question_column"},
        {"passage": "passage_column"},
        {"answers": "answers_column"},
        {"start": "start_column"},
        {"key": "key_column"},
    ),
    "tagged": (
        {"words": "word_column", "sentence": "sentence_column"},
        {"tags": "tag_column"},
        {"tag_names": "tag_names"},
        {"document": "document_column"},
    ),
}
_OF_CONLL: tuple[Group, ...] = ({"tag_column": "tag_column"}, {"is_one_document": "one_document"})
_NO_NAMES = ("separator", "first_choice", "tag_names")
"""Options whose values name no column."""
_OF_SEVERAL = ("text_columns",)
"""Options that take several columns."""

_COLUMN_OPTIONS = tuple(
    option
    for groups in _GROUPS.values()
    for group in groups
    for option in group.values()
    if option not in _NO_NAMES
)


def remembered(source: Mapping[str, object], learned: Learned) -> dict[str, object]:
    """What a task.json adds to the options that name examples, as JSON values.

    Raises FileNotFoundError and ValueError for files that are not there or hold no rows.
    """
    columns = learned.columns
    kind = next((name for name in _GROUPS if name in source), None)
    if kind is None or not columns:
        return {}
    paths = [Path(str(source[name])) for name in (kind, "dev") if name in source]
    if kind == "tagged" and any(_is_of_lines(path, source, learned) for path in paths):
        return _added(_OF_CONLL, columns, source, _plain(WordColumns()), None)
    if kind == "squad" and any(map(is_squad_json, paths)):
        return {}
    header = _header(source, learned, paths)
    has_header = {**source, **header}.get("header") is not False
    found = [tables.columns(path, has_header=has_header) for path in paths]
    shared = set(found[0]).intersection(*found[1:])
    is_of_words = kind == "tagged" and layout_of(paths[0], has_header=has_header) == "words"
    defaults = _defaults(kind, found[0], is_of_words)
    return header | _added(_GROUPS[kind], columns, source, defaults, shared)


def _is_of_lines(path: Path, source: Mapping[str, object], learned: Learned) -> bool:
    """Whether its tagged words stand in CoNLL's columns, and none that was learned from."""
    has_header = source.get("header") is not False and learned.has_header
    sentence = str(source.get("sentence_column") or "")
    if not sentence and layout_of(path, has_header=has_header) == "lines":
        said = str(learned.columns.get("sentence") or "")
        return not said or not is_word_table(path, said, has_header=has_header)
    return False


def _header(
    source: Mapping[str, object], learned: Learned, paths: Iterable[Path]
) -> dict[str, object]:
    """That there is none, as in the rows learned from, but where a column is typed by its name."""
    typed = _names({option: source[option] for option in _COLUMN_OPTIONS if option in source})
    is_known = "header" in source or learned.has_header_with(typed)
    return {} if is_known or not all(map(tables.has_named_columns, paths)) else {"header": False}


def _added(
    groups: Iterable[Group],
    columns: Mapping[str, object],
    source: Mapping[str, object],
    defaults: Mapping[str, object],
    shared: set[str] | None,
) -> dict[str, object]:
    """The groups of which nothing is typed, that the files have, and that are not the default."""
    added: dict[str, object] = {}
    for group in groups:
        said = ((group[name], columns[name]) for name in group if name in columns)
        values = {option: _as_option(option, value) for option, value in said}
        is_typed = any(option in source for option in group.values())
        is_default = all(columns.get(name) == defaults.get(name) for name in group)
        if not is_typed and not is_default and (shared is None or _names(values) <= shared):
            added |= values
    return added


def _as_option(option: str, value: object) -> object:
    """Choices share one text, and the option that names it takes several."""
    return [value] if option in _OF_SEVERAL and isinstance(value, str) else value


def _names(values: Mapping[str, object]) -> set[str]:
    """The columns that are named; of `question.stem` it is `question`."""
    listed = [
        value if isinstance(value, list) else [value]
        for option, value in values.items()
        if option not in _NO_NAMES
    ]
    return {str(name).partition(".")[0] for names in listed for name in names if name}


def _defaults(kind: str, found: tuple[str, ...], is_of_words: bool) -> dict[str, object]:
    """The columns of a file with these, where nothing is said."""
    match kind:
        case "texts":
            return _plain(TextColumns())
        case "squad":
            return _plain(QuestionColumns())
        case "tagged":
            return _plain(word_rows_of(found) if is_of_words else WordColumns())
    return _plain(choices.layout_of(found) or ChoiceColumns(text="", choices=("",)))


def _plain(
    columns: TextColumns | QuestionColumns | WordColumns | ChoiceColumns,
) -> dict[str, object]:
    """As JSON has them."""
    fields = dataclasses.asdict(columns)
    return {name: list(each) if isinstance(each, tuple) else each for name, each in fields.items()}
