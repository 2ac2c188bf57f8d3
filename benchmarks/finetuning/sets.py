"""The labelled sets that fine-tuning is judged on, each with the values that all systems share.

A row of the table says where a set's examples come from, which task they make, and how long and how
often both systems train on them. Data that is not the official set is named for what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bertsmith.randomness import Stream, permutation
from bertsmith.reading.conll import tagged_sentences
from bertsmith.reading.squad_json import Question, read_questions
from bertsmith.tasks import glue
from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.own import choices, texts
from bertsmith.tasks.own.texts import TextColumns
from bertsmith.tasks.tag import TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging

SLICE = 10_000
"""Questions of SQuAD's training set that both systems learn from; all are too many for the peer."""
_SLICE_SEED = 0
_SQUAD_DEV = "Dev: 7,753 of 10,570 questions"
_FIRST_ARTICLES = 100


@dataclass(frozen=True, kw_only=True)
class Examples:
    """A task, what is learned, and what is measured."""

    task: AnyTask
    train: Sequence[Any]
    dev: Sequence[Any]


Model = Literal["minilm", "mini-en", "mini-ko"]


@dataclass(frozen=True, kw_only=True)
class ProofSet:
    """A set and how it is learned, by every system alike."""

    name: str
    read: Callable[[Path], Examples]
    """The data's folder -> its examples."""
    what: str = ""
    """What it is, where it is not the official set."""
    models: tuple[Model, ...] = ("minilm", "mini-en")
    seeds: int = 5
    """How many runs of ours."""
    other_seeds: int = 3
    """How many of these the other systems learn too, where they learn the set at all."""
    epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float = 1e-4
    """Twice the paper's highest: the models are small (Turc et al. 2019 tried 3e-5 to 3e-4)."""
    with_peer: bool = True
    """Whether `transformers` learns it too."""


def glue_examples(name: str) -> Callable[[Path], Examples]:
    """How a task of GLUE is read from the data's folder."""

    def read(data: Path) -> Examples:
        row = glue.task_named(name)
        train, dev = (
            glue.read(data / "glue", row, split, lambda fault: None) for split in ("train", "dev")
        )
        task = Classification(scheme=row.scheme, max_tokens=128, metrics=row.metrics)
        return Examples(task=task, train=train, dev=dev)

    return read


def _arc(data: Path) -> Examples:
    files = [data / "multiple_choice" / f"ARC-Easy-{part}.jsonl.gz" for part in ("Train", "Dev")]
    train, dev = (choices.read(file, choices.ARC).examples for file in files)
    return Examples(task=MultipleChoice(max_tokens=128), train=train, dev=dev)


def _conll(data: Path) -> Examples:
    return _tagged(
        *(data / "conll2003" / f"eng.{part}.gz" for part in ("train", "testa")),
        config=TagConfig(max_tokens=256),
    )


def _klue_ner(data: Path) -> Examples:
    folder = data / "korean" / "klue_ner"
    # The file marks no documents, and its sentences come from everywhere.
    config = TagConfig(max_tokens=128, context="sentence")
    return _tagged(folder / "train.tsv.gz", folder / "dev.tsv.gz", config=config)


def _tagged(train: Path, dev: Path, *, config: TagConfig) -> Examples:
    learned, measured = (list(tagged_sentences(file)) for file in (train, dev))
    scheme = TagScheme.of(learned)
    return Examples(task=Tagging(scheme=scheme, config=config), train=learned, dev=measured)


def squad_examples(count: int | None) -> Callable[[Path], Examples]:
    def read(data: Path) -> Examples:
        train, dev = (
            read_questions(data / "squad" / f"{part}-v1.1.json.gz").questions
            for part in ("train", "dev")
        )
        return Examples(task=SpanAnswering(), train=_slice(train, count), dev=dev)

    return read


def _slice(questions: Sequence[Question], count: int | None) -> list[Question]:
    if count is None:
        return list(questions)
    order = permutation(len(questions), _SLICE_SEED, Stream.SHUFFLE, 0)
    return [questions[number] for number in sorted(order[:count])]


def _korquad(data: Path) -> Examples:
    """Of KorQuAD only Dev is there: its first 100 articles are learned, the others measured."""
    questions = read_questions(data / "korean" / "korquad" / "KorQuAD_v1.0_dev.json.gz").questions
    is_first = [_article(question) < _FIRST_ARTICLES for question in questions]
    return Examples(
        task=SpanAnswering(),
        train=[each for each, is_one in zip(questions, is_first, strict=True) if is_one],
        dev=[each for each, is_one in zip(questions, is_first, strict=True) if not is_one],
    )


def _article(question: Question) -> int:
    """The number of its article: a place reads `file: data[3].paragraphs[1].qas[2]`."""
    return int(question.place.rpartition("data[")[2].partition("]")[0])


def _nsmc(data: Path) -> Examples:
    columns = TextColumns(texts=("document",))
    train, dev = (
        texts.read(data / "korean" / "nsmc" / f"{part}.tsv.gz", columns).examples
        for part in ("train", "dev")
    )
    scheme = LabelScheme(("0", "1"))
    task = Classification(scheme=scheme, max_tokens=128, metrics=("accuracy",))
    return Examples(task=task, train=train, dev=dev)


SETS: tuple[ProofSet, ...] = (
    ProofSet(name="RTE", read=glue_examples("RTE")),
    ProofSet(name="MRPC", read=glue_examples("MRPC")),
    ProofSet(name="CoLA", read=glue_examples("CoLA")),
    ProofSet(name="STS-B", read=glue_examples("STS-B")),
    ProofSet(name="ARC-Easy", read=_arc, epochs=2.0),
    ProofSet(name="CoNLL-2003", read=_conll, seeds=3, epochs=2.0, batch_size=16),
    ProofSet(name="KLUE-NER", read=_klue_ner, models=("mini-ko",), epochs=5.0, batch_size=16,
             what="4,000 sentences of its Dev to learn, 500 others of it to measure"),
    ProofSet(name="NSMC", read=_nsmc, models=("mini-ko",), seeds=3, epochs=1.0,
             what="100,000 reviews drawn like its own to learn, 20,000 of its rows to measure"),
    ProofSet(name="SST-2", read=glue_examples("SST-2"), seeds=3, epochs=1.0),
    ProofSet(name="KorQuAD 1.0 Dev, by articles", read=_korquad, models=("mini-ko",), seeds=1),
    ProofSet(name=f"SQuAD 1.1, {SLICE:,} questions", read=squad_examples(SLICE), models=("minilm",),
             seeds=1, epochs=2.0, what=_SQUAD_DEV),
    ProofSet(name="SQuAD 1.1", read=squad_examples(None), models=("minilm",), seeds=1, epochs=1.0,
             with_peer=False, what=_SQUAD_DEV),
)  # fmt: skip
"""In the order in which they are run: the small ones first."""


def set_named(name: str) -> ProofSet:
    """The row of the table. Raises ValueError for another name."""
    for row in SETS:
        if row.name == name:
            return row
    raise ValueError(f"no set {name!r}; known: {', '.join(row.name for row in SETS)}")


def shortened(examples: Examples, count: int | None) -> Examples:
    """The first examples only, to see that all works."""
    if count is None:
        return examples
    return replace(examples, train=examples.train[:count], dev=examples.dev[:count])
