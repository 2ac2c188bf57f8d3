"""A file of questions with choices -> examples to choose from.

Some layouts have names. SWAG's: a column a choice, each going on with a begun sentence. ARC's, as
its authors and as the Hub have it: a list of choices with labels of their own. They are values; a
layout of your own is another. In CSV, TSV, JSONL and Parquet alike; rows may differ in how many
choices they have.

Source: Zellers et al. 2018 (SWAG) and Clark et al. 2018 (ARC), the files of their authors.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.reading.counted import counted
from bertsmith.reading.tables import Row
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.own.fields import Field, pairs_of, text_of
from bertsmith.tasks.own.files import FileOptions, OwnFile, read_rows, require_text
from bertsmith.tasks.own.split import content_of
from bertsmith.tasks.own.summary import Summary, lengths_of, num_repeated, summarised

_FEWEST = 2
_LETTERS = string.ascii_uppercase
_WHOLE_NUMBER = re.compile(r"([0-9]+)(?:\.0+)?")
"""Also 1.0, as a column of numbers is written where a row has none."""


@dataclass(frozen=True, kw_only=True)
class ChoiceColumns:
    """Where things stand in a row; `question.stem` is the field `stem` of the column `question`."""

    text: str
    """What all choices share."""
    choices: tuple[str, ...]
    """A column for each choice, empty behind a row's last one; or one column of lists."""
    begun: str = ""
    """A column whose text each choice goes on with; empty for none."""
    label: str | None = "label"
    """The right one's own label, its text, its letter or its number. None to predict on."""
    first_number: int | None = None
    """What the first choice is called where labels count them, whatever the choices' texts are.

    None: 0, and a label that is one choice's text and counts another is refused."""
    key: str = ""
    """A column of ids that must be unique; empty for none."""

    def __post_init__(self) -> None:
        """Refuses a layout without choices."""
        if not self.choices:
            raise ValueError("choices must name a column for each choice, or one column of lists")


SWAG = ChoiceColumns(
    text="sent1", begun="sent2", choices=("ending0", "ending1", "ending2", "ending3")
)
ARC = ChoiceColumns(
    text="question.stem", choices=("question.choices",), label="answerKey", key="id"
)
ARC_OF_THE_HUB = ChoiceColumns(text="question", choices=("choices",), label="answerKey", key="id")


def read(
    path: Path, columns: ChoiceColumns, options: FileOptions | None = None
) -> OwnFile[ChoiceExample]:
    """The examples of a file; rows with an empty text are left out and told.

    Raises as `read_rows` does; fewer than two choices, an empty one between others and a label that
    is none of them are refused with file and line.
    """
    options = options or FileOptions()
    names, example = reader(columns, tables.columns(path, has_header=options.has_header))
    return read_rows(path, names, example, options, columns.key)


def reader(
    columns: ChoiceColumns, found: Sequence[str]
) -> tuple[tuple[str, ...], Callable[[Row], ChoiceExample]]:
    """The columns to read of a file that has those `found`, and what a row of them is."""
    wanted = [columns.text, columns.begun, columns.label or "", *columns.choices]
    fields = {name: Field.of(name, found) for name in wanted if name}

    def example(row: Row) -> ChoiceExample:
        values = {name: field.value(row) for name, field in fields.items()}
        return _example(values, columns, row.place)

    return tuple(dict.fromkeys(field.column for field in fields.values())), example


def contents(examples: Sequence[ChoiceExample]) -> list[str]:
    """What keeps examples on one side of a split: the text that the choices share."""
    return [content_of(example.text) for example in examples]


def balance(examples: Sequence[ChoiceExample]) -> str:
    """A line on how often the right choice stands where; empty without labels."""
    places = Counter(example.label for example in examples if example.label is not None)
    told = ", ".join(
        f"number {label + 1} in {count:,} ({count / len(examples):.1%})"
        for label, count in sorted(places.items())
    )
    return f"the right choice is {told}" if told else ""


def layout_of(columns: Sequence[str]) -> ChoiceColumns | None:
    """The layout that has a name and these columns; None for another."""
    for layout in (SWAG, ARC_OF_THE_HUB, ARC):
        names = (layout.text, layout.begun, *layout.choices, layout.label or "", layout.key)
        if {name.partition(".")[0] for name in names if name} <= set(columns):
            return layout
    return None


def summary(file: OwnFile[ChoiceExample]) -> Summary:
    """What was read."""
    examples = file.examples
    counts = Counter(len(example.choices) for example in examples)
    numbers = ", ".join(f"{number} in {count:,}" for number, count in sorted(counts.items()))
    listed = [content_of(example.text, *example.choices) for example in examples]
    repeated = num_repeated(listed)
    return summarised(
        file,
        balance=balance(examples),
        lengths=[
            lengths_of("characters of the text", (len(example.text) for example in examples)),
            lengths_of(
                "characters of a choice",
                (len(choice) for example in examples for choice in example.choices),
            ),
        ],
        notes=[
            f"choices: {numbers}",
            *(
                [f"{counted(repeated, 'example occurs', 'examples occur')} before"]
                if repeated
                else []
            ),
        ],
    )


def _example(values: Mapping[str, object], columns: ChoiceColumns, place: str) -> ChoiceExample:
    def text(name: str) -> str:
        return require_text(text_of(values[name], f"{place}: {name!r}"), place, name)

    shared, begun = text(columns.text), text(columns.begun) if columns.begun else ""
    if len(columns.choices) == 1:
        choices, own_labels = _listed(values[columns.choices[0]], place)
    else:
        cells = [text_of(values[name], f"{place}: {name!r}") for name in columns.choices]
        while cells and not cells[-1].strip():
            del cells[-1]
        choices, own_labels = cells, []
    for number, choice in enumerate(choices):
        if not choice.strip():
            raise ValueError(f"{place}: choice {number + 1} of {len(choices)} is empty")
    if len(choices) < _FEWEST:
        told = counted(len(choices), "choice")
        raise ValueError(f"{place}: {told}, expected at least {_FEWEST}")
    label = None
    if columns.label is not None:
        label = _number(values[columns.label], own_labels, choices, columns.first_number, place)
    whole = tuple(f"{begun} {choice}" if begun else choice for choice in choices)
    return ChoiceExample(text=shared, choices=whole, label=label, place=place)


def _listed(value: object, place: str) -> tuple[list[str], list[str]]:
    """Choices and their own labels, if any: texts, mappings of both, or a mapping of two lists."""
    pairs = pairs_of(value, "text", "label")
    if pairs is not None:
        texts = [text for text, _ in pairs]
    elif isinstance(value, list):
        texts = value
    else:
        raise ValueError(
            f"{place}: choices must be a list of texts, or of objects with text and label, found "
            f"{value!r:.60}"
        )
    labels = [str(label) for _, label in pairs or []]
    return [text_of(text, f"{place}: a choice") for text in texts], labels


def _number(
    value: object,
    own_labels: Sequence[str],
    choices: Sequence[str],
    first_number: int | None,
    place: str,
) -> int:
    """Which choice a label means, from 0."""
    spelt = str(value).strip()
    if value is None or not spelt:
        raise ValueError(f"{place}: no label")
    same = [number for number, choice in enumerate(choices) if choice.strip() == spelt]
    if own_labels and (spelt in own_labels or not same):
        if own_labels.count(spelt) != 1:
            raise ValueError(
                f"{place}: label {spelt!r} stands at {own_labels.count(spelt)} of the choices, "
                f"labelled {', '.join(own_labels)}: expected one"
            )
        return own_labels.index(spelt)
    counted_as = None if own_labels else _counted(spelt, first_number or 0)
    if same and (counted_as is None or first_number is None):
        is_choice = counted_as is not None and 0 <= counted_as < len(choices)
        return _of_text(spelt, same, counted_as if is_choice else None, place)
    if counted_as is None:
        raise ValueError(
            f"{place}: label {spelt!r:.40} is no letter and no number of a choice, and the text of "
            f"none"
        )
    if not 0 <= counted_as < len(choices):
        how = "from A" if spelt.isalpha() else f"from {first_number or 0}"
        raise ValueError(
            f"{place}: label {spelt!r} is none of the {len(choices)} choices counted {how}; where "
            f"the file counts otherwise, say what it calls the first with --first-choice"
        )
    return counted_as


def _counted(spelt: str, first_number: int) -> int | None:
    """The choice, from 0, that a letter or a number counts; None for what is neither."""
    if len(spelt) == 1 and spelt.upper() in _LETTERS:
        return _LETTERS.index(spelt.upper())
    whole = _WHOLE_NUMBER.fullmatch(spelt)
    return int(whole[1]) - first_number if whole else None


def _of_text(spelt: str, same: Sequence[int], counted_as: int | None, place: str) -> int:
    """The one choice whose text the label is. Raises ValueError where it may mean another."""
    if len(same) > 1:
        numbers = " and ".join(str(number + 1) for number in same)
        raise ValueError(
            f"{place}: label {spelt!r:.40} is the text of choices {numbers}: expected one"
        )
    if counted_as is not None and counted_as != same[0]:
        raise ValueError(
            f"{place}: label {spelt!r} is the text of choice {same[0] + 1}, and counts choice "
            f"{counted_as + 1}: where labels count choices, say what the first is called with "
            f"--first-choice; where they are texts, write their numbers"
        )
    return same[0]
