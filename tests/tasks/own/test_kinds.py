"""What is read of a file is what the task of its kind encodes, to the targets."""

from __future__ import annotations

from pathlib import Path

from bertsmith.data.labelled import LabelledItems
from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.own import choices, questions, texts, words
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging
from bertsmith.text.tokenizer import Tokenizer
from tests.tasks.own.written import lines_at, rows_at

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"])


def _shown(labelled: LabelledItems) -> list[tuple[str, list[float]]]:
    read = [" ".join(TOKENIZER.vocabulary[id] for id in item.token_ids) for item in labelled.items]
    return list(zip(read, (target.tolist() for target in labelled.targets), strict=True))


def test_texts(tmp_path: Path) -> None:
    examples = texts.read(
        lines_at(tmp_path / "a.csv", "text,label", "a b,x", "c,y"), texts.TextColumns()
    ).examples
    task = Classification(scheme=LabelScheme.of(examples))
    assert _shown(task.encode(examples, TOKENIZER).labelled) == [
        ("[CLS] a b [SEP]", [0]),
        ("[CLS] c [SEP]", [1]),
    ]


def test_words(tmp_path: Path) -> None:
    row = {"tokens": ["a", "b"], "ner_tags": ["O", "B-PER"]}
    examples = words.read(rows_at(tmp_path / "a.jsonl", row)).examples
    task = Tagging(scheme=TagScheme.of(examples))
    assert _shown(task.encode(examples, TOKENIZER).labelled) == [("[CLS] a b [SEP]", [0, 1])]


def test_questions(tmp_path: Path) -> None:
    answers = {"text": ["c d"], "answer_start": [4]}
    row = {"id": "1", "question": "a", "context": "a b c d", "answers": answers}
    examples = questions.read(rows_at(tmp_path / "a.jsonl", row)).examples
    assert _shown(SpanAnswering().encode(examples, TOKENIZER).labelled) == [
        ("[CLS] a [SEP] a b c d [SEP]", [5, 6])
    ]


def test_choices(tmp_path: Path) -> None:
    row = {"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d", "label": 1}
    columns = choices.ChoiceColumns(text="sent1", begun="sent2", choices=("ending0", "ending1"))
    examples = choices.read(rows_at(tmp_path / "a.jsonl", row), columns).examples
    assert _shown(MultipleChoice().encode(examples, TOKENIZER).labelled) == [
        ("[CLS] a [SEP] b c [SEP]", [0.0]),
        ("[CLS] a [SEP] b d [SEP]", [1.0]),
    ]
