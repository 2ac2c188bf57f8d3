"""`--squad`: questions about passages -> answers cut out of the passage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.commands.sources.files import SHARED_OPTIONS, learned_header, require_columns
from bertsmith.commands.sources.source import chosen_values, require_read, wrong_kind
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.reading import tables
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.own import questions
from bertsmith.tasks.own.files import FileOptions, OwnFile
from bertsmith.tasks.own.question_rows import QuestionColumns
from bertsmith.tasks.squad import EncodedQuestions, SquadConfig
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.squad_scores import EVALUATORS, SquadVersion
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import SpanAnswering, Task

_COLUMNS = ("key_column", "question_column", "passage_column", "answers_column", "start_column")
_OPTIONS = (*SHARED_OPTIONS, "header", *_COLUMNS)
_Spans = Task[Question, EncodedQuestions, FoundAnswer]
_CONFIG = ("doc_stride", "max_question_tokens", "max_answer_tokens", "num_best")


@dataclass(frozen=True)
class SpanFiles:
    """Files of questions, each about a passage."""

    files: TaskFiles
    values: TaskValues

    option = "squad"
    max_tokens = SquadConfig.max_tokens

    def __post_init__(self) -> None:
        """Refuses options that would be passed over."""
        values = " ".join((*_CONFIG, "squad_version"))
        require_read(self.files, self.values, _OPTIONS, self.option, values)

    def read(self, path: Path, task: object) -> OwnFile[Question]:
        """As `questions.read`."""
        files = self.files
        options = FileOptions(has_header=files.header, skip_malformed=files.skip_malformed)
        columns = _columns_of(files)
        if questions.has_rows(path):
            own = columns.of_file(path, has_header=files.header)
            named = {
                own.question: "question-column",
                own.passage: "passage-column",
                own.answers or "": "answers-column",
                files.start_column or "": "start-column",
                own.key: "key-column",
            }
            require_columns(path, tables.columns(path, has_header=files.header), named)
        return questions.read(path, columns, options)

    def contents(self, examples: Sequence[Question]) -> list[str]:
        """Their passages."""
        return questions.contents(examples)

    def begin(self, files: Sequence[OwnFile[Question]], max_tokens: int) -> SpanAnswering:
        """With no answer as an answer where one of the files has questions without one."""
        version = self.values.squad_version or questions.version_of(
            [file.path for file in files], _columns_of(self.files), has_header=self.files.header
        )
        config = SquadConfig(
            max_tokens=max_tokens,
            with_null=version == "2.0",
            **chosen_values(self.values, *_CONFIG),
        )
        if not config.with_null:
            _require_answers(files, version)
        return SpanAnswering(config=config, version=version)

    def fitting(self, task: object) -> SpanAnswering:
        """The task of a model that answers questions."""
        if not isinstance(task, SpanAnswering):
            raise wrong_kind(task, self.option, "questions about passages")
        return task

    def to_json(self, task: _Spans, name: str) -> Mapping[str, object]:
        """As `stored.task_json`."""
        columns, path = dataclasses.asdict(_columns_of(self.files)), self.files.squad
        assert path is not None
        has_header = questions.is_squad_json(path) or learned_header(path, self.files)
        return task_json(
            self.fitting(task), Learned(name=name, columns=columns, has_header=has_header)
        )

    def answerable(self, examples: Sequence[Question], task: _Spans) -> SpanAnswering:
        """All count; 1.1's evaluator knows no question without an answer, and 2.0's scores them."""
        own = self.fitting(task)
        is_beyond = own.version == "1.1" and not all(example.gold for example in examples)
        return replace(own, version="2.0") if is_beyond else own

    def balance(
        self,
        examples: Sequence[Question],
        task: _Spans,
    ) -> str:
        """Passages, questions without an answer, and whose evaluator scores them."""
        return f"{questions.balance(examples)}; {EVALUATORS[self.fitting(task).version]}"

    def labels(self, examples: Sequence[Question], task: _Spans) -> list[tuple[str, ...]]:
        """None: an answer is a place in its passage."""
        return [()] * len(examples)

    def notes(self, file: OwnFile[Question], task: _Spans) -> Sequence[str]:
        """What was read otherwise than it stands."""
        return file.notes

    def set_notes(self, train: Sequence[Question], dev: Sequence[Question]) -> Sequence[str]:
        """A line where questions without an answer stand in one of the sets only."""
        without = [sum(not example.gold for example in examples) for examples in (train, dev)]
        match without:
            case [0, several] if several and train:
                return (
                    f"{several:,} of {len(dev):,} Dev questions have no answer, and none of the "
                    f"training questions: such answers cannot be learned",
                )
            case [several, 0] if several and dev:
                return (
                    f"{several:,} of {len(train):,} training questions have no answer, and none "
                    f"of the Dev questions: how well such are told is not measured",
                )
        return ()


def _columns_of(files: TaskFiles) -> QuestionColumns:
    """The columns that are named, the usual ones in place of the others."""
    named = {
        "key": files.key_column,
        "question": files.question_column,
        "passage": files.passage_column,
        "answers": files.answers_column,
        "start": files.start_column,
    }
    return QuestionColumns(**{name: each for name, each in named.items() if each is not None})


def _require_answers(files: Sequence[OwnFile[Question]], version: SquadVersion) -> None:
    """Raises ValueError, with the place, for a question without one: it could not be learned."""
    for file in files:
        without = [example for example in file.examples if not example.gold]
        if without:
            raise ValueError(
                f"{without[0].place}: the question has no answer, as have {len(without):,} of "
                f"{len(file.examples):,}, and --squad-version {version} always gives one: SQuAD "
                f"2.0 marks such questions by is_impossible; --squad-version 2.0 learns them so"
            )
