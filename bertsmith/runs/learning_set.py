"""Examples of a task -> the same as a model reads them, with answers and scores at hand.

Where examples come from is not known here. What a model cannot read is refused before the long
work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from bertsmith.checkpoints.store import Loaded
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task_model import TaskModel
from bertsmith.packing import Packing, Watch
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.counted import counted
from bertsmith.reading.squad_json import Question
from bertsmith.tasks import metrics
from bertsmith.tasks.asked import texts_of, unreadable
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.judge import judged
from bertsmith.tasks.judged import Judged
from bertsmith.tasks.metrics import Interval, Numbers, Scorer
from bertsmith.tasks.own.files import FileOptions, LeftOut
from bertsmith.tasks.own_faults import failures_named, is_own
from bertsmith.tasks.scores import KeptStates, item_scores
from bertsmith.tasks.task import AnyTask, Encoded, Task
from bertsmith.text.tally import TokenTally
from bertsmith.text.tokenizer import Tokenizer

ExampleT = TypeVar("ExampleT")
EncodedT = TypeVar("EncodedT", bound=Encoded)
AnswerT = TypeVar("AnswerT")

# A class's metrics of many examples are slow to compute, and their intervals need fewer draws.
_EXAMPLES_DRAWN = 1_000_000
_FEWEST_DRAWS, _MOST_DRAWS = 100, 1_000


@dataclass(frozen=True, kw_only=True)
class LearningSet(Generic[ExampleT, EncodedT, AnswerT]):
    """What is to be learned, and on what it is to be measured."""

    name: str
    """What to call it, in a directory's name too."""
    task: Task[ExampleT, EncodedT, AnswerT]
    task_json: Mapping[str, object]
    """The task as JSON values: what makes a checkpoint whole."""
    train: Sequence[ExampleT]
    dev: Sequence[ExampleT]
    options: str
    """How a command line names the examples."""
    train_balance: str
    """What is right, and how often, among the training examples: a line."""
    dev_balance: str
    """The same of Dev: what an answer that never changes would reach."""
    label_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each label occurs, of `training` and `Dev`; empty where nothing has labels, and of
    GLUE's tasks, whose labels are known."""
    notes: tuple[str, ...] = ()
    """What was seen while reading, a sentence each."""
    skip_malformed: bool = False
    """Whether examples of which the model's tokenizer leaves nothing are left out, too."""


@dataclass(frozen=True, kw_only=True)
class ReadExamples(Generic[ExampleT, EncodedT, AnswerT]):
    """Examples as a model reads them."""

    task: Task[ExampleT, EncodedT, AnswerT]
    examples: Sequence[ExampleT]
    encoded: EncodedT
    notes: tuple[str, ...] = ()
    """What of them is not read, never scored, or unknown to the vocabulary, a sentence each."""

    @property
    def labelled(self) -> LabelledItems:
        """The sequences, and what is right of each."""
        return self.encoded.labelled

    def answers(
        self,
        model: TaskModel,
        watch: Watch = lambda share: None,
        states: KeptStates | None = None,
    ) -> list[AnswerT]:
        """What the model says of each example, without dropout; of `states` where they are kept."""
        return self.decoded(self.item_scores(model, watch, states))

    def item_scores(
        self,
        model: TaskModel,
        watch: Watch = lambda share: None,
        states: KeptStates | None = None,
    ) -> list[npt.NDArray[np.floating]]:
        """The scores that the model's head gives each item, without dropout."""
        # Made anew every time: which kernels run must not depend on what was read before.
        packing = Packing.of(model.bert)
        return item_scores(model.bert, model.head, self.labelled, packing, watch, states)

    def decoded(self, scores: Sequence[npt.NDArray[np.floating]]) -> list[AnswerT]:
        """What the items' scores say of each example."""
        with failures_named(type(self.task), "decode"):
            return self.task.decode(self.examples, self.encoded, scores)

    def judged(
        self, scores: Sequence[npt.NDArray[np.floating]], answers: Sequence[AnswerT]
    ) -> Judged:
        """What else there is to say of the answers, of the items' scores that they come from."""
        return judged(self.task, self.examples, self.encoded, scores, answers)

    def scores(self, answers: Sequence[AnswerT]) -> dict[str, float]:
        """The task's metrics by name."""
        with failures_named(type(self.task), "score"):
            return self.task.score(self.examples, answers)

    def intervals(
        self, answers: Sequence[AnswerT], num_draws: int | None = None
    ) -> dict[str, Interval | None]:
        """What each metric would be on other examples of the same kind, 95 times in 100.

        None for one that draws have alike, which does not say how far others would be.
        From `num_draws` draws; a class of one's own, which scores each draw anew, takes fewer where
        there are many examples.
        """
        count, known = len(self.examples), cast(object, self.task)
        if isinstance(known, AnyTask) and not is_own(type(known)):
            scorer: Callable[..., Scorer] = known.scorer
            score = scorer(self.examples, answers)
            return metrics.intervals(score, count, num_draws or _MOST_DRAWS)

        def drawn(numbers: Numbers) -> dict[str, float]:
            return self.task.score(
                [self.examples[number] for number in numbers],
                [answers[number] for number in numbers],
            )

        draws = num_draws or min(_MOST_DRAWS, max(_FEWEST_DRAWS, _EXAMPLES_DRAWN // count))
        what = "score of examples drawn anew, as for an interval,"
        with failures_named(type(self.task), what):
            return metrics.intervals(drawn, count, draws)


def read_examples(
    task: Task[ExampleT, EncodedT, AnswerT],
    examples: Sequence[ExampleT],
    loaded: Loaded,
    what: str,
    *,
    skip_malformed: bool = False,
) -> ReadExamples[ExampleT, EncodedT, AnswerT]:
    """Encodes the examples with the model's own tokenizer; `what` names them in errors.

    Raises ValueError where there are none, where one has no label, and where the model cannot read
    them: sequences beyond its positions, a second text without a second segment, or a text without
    a token; with `skip_malformed` the latter are left out, and told.
    """
    left_out: tuple[str, ...] = ()
    if not is_own(type(task)):  # one's own class may read what it likes
        examples, left_out = _with_tokens(examples, loaded.tokenizer, skip_malformed)
    if not examples:
        raise ValueError("; ".join((f"there are no {what} examples", *left_out)))
    with failures_named(type(task), "encode"):
        encoded = task.encode(examples, loaded.tokenizer)
        labelled, notes = encoded.labelled, encoded.notes
        longest = max(len(item.token_ids) for item in labelled.items)
        segments = 1 + max(int(item.segment_ids.max()) for item in labelled.items)
    if not labelled.targets:
        raise ValueError(f"not every one of the {len(examples):,} {what} examples has a label")
    config = loaded.config
    if longest > config.max_position_embeddings:
        raise ValueError(
            f"the longest sequence of the {what} examples has {longest} tokens, and "
            f"{loaded.directory} reads at most {config.max_position_embeddings}: lower --max-tokens"
        )
    if segments > config.type_vocab_size:
        raise ValueError(
            f"the {what} examples are pairs of texts, and {loaded.directory} has no second segment "
            f"(type_vocab_size {config.type_vocab_size}): take a model that was trained on pairs"
        )
    tally = TokenTally(loaded.tokenizer)
    tally.add(item.token_ids for item in labelled.items)
    tally.look_at(text for example in examples for text in _texts(example))
    notes = (*left_out, *notes, *tally.notes("of the examples"))
    return ReadExamples(task=task, examples=examples, encoded=encoded, notes=notes)


def _texts(example: object) -> Sequence[str]:
    """Of an example of a known kind."""
    match example:
        case TextExample() | Question() | ChoiceExample():
            return texts_of(example)
        case TaggedSentence():
            return example.words
    return ()


def _with_tokens(
    examples: Sequence[ExampleT], tokenizer: Tokenizer, skip_malformed: bool
) -> tuple[list[ExampleT], tuple[str, ...]]:
    """The examples but those with a text, or a choice, of which no token is left; and a note.

    Of a question without a token the passage is read, and words without one are not scored.
    """
    left_out = LeftOut(FileOptions(skip_malformed=skip_malformed))
    kept = []
    for each in examples:
        example: object = each
        if isinstance(example, TextExample | ChoiceExample) and (
            fault := unreadable(example, tokenizer)
        ):
            left_out.malformed(f"{example.place}: {fault}")
        else:
            kept.append(each)
    told = f"{counted(len(left_out.faults), 'row')} without a token left out; the first: "
    return kept, tuple(f"{told}{fault}" for fault in left_out.faults[:1])


def fingerprint(*sets: LabelledItems) -> str:
    """SHA-256 of everything that is learned and measured, in its order."""
    digest = hashlib.sha256()
    for labelled in sets:
        digest.update(np.ascontiguousarray(labelled.groups).tobytes())
        for column in (
            [item.token_ids for item in labelled.items],
            [item.segment_ids for item in labelled.items],
            labelled.rows or [],
            labelled.targets,
        ):
            digest.update(np.array([len(each) for each in column], np.int64).tobytes())
            for array in column:
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
