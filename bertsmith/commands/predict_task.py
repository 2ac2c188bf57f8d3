"""`bertsmith predict RUN`: questions of the task that a model was fine-tuned on -> its answers.

    bertsmith predict runs/mini-en-SST-2 "a joy from beginning to end"
    bertsmith predict runs/mini-en-SST-2 --file reviews.csv --columns review --out answers.jsonl
    bertsmith predict runs/squad "Who was he?" "He was a painter."
    bertsmith predict runs/squad --squad dev-v2.0.json --out answers

Rows stream through, a window at a time, and answers come in their order, one for every row. How
they are printed stands in `task_answers` and, for a person, in `task_lines`.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertsmith.commands import task_answers
from bertsmith.commands.answering import tell_unknown, watched
from bertsmith.commands.asked_entry import Entry, RowFiles
from bertsmith.commands.asked_questions import AskedQuestions, require_files
from bertsmith.commands.asked_rows import KEY
from bertsmith.commands.predict_options import QUESTIONS
from bertsmith.commands.predict_task_options import AskTask
from bertsmith.commands.questions import WINDOW, can_be_read_twice
from bertsmith.commands.squad_files import squad_files
from bertsmith.commands.task_answers import Show
from bertsmith.commands.task_lines import as_lines
from bertsmith.files import atomic_file
from bertsmith.reading.detect import suffix_of
from bertsmith.tasks.answered import AnsweredQuestion, TaskAnswer, num_unread
from bertsmith.tasks.imported import AnyOwnTask
from bertsmith.tasks.own.unlabelled import TextsAsked, rows_of
from bertsmith.tasks.stored import Learned
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging

if TYPE_CHECKING:
    from bertsmith.inference import Predictor


def ask_task(run: AskTask) -> None:
    """Answers every row, in order; what was not read, and what was assumed, is reported.

    Raises ValueError or FileNotFoundError for what cannot be asked, before the first answer.
    """
    files = (run.squad,) if run.squad is not None else run.file
    require_files(files)
    require_free(run)
    predictor = loaded(run)
    model = predictor.fine_tuned
    if run.squad is not None:
        model.require(SpanAnswering)
        if suffix_of(run.squad.name) != ".json":
            raise ValueError(f"{run.squad} is not SQuAD's .json: answer its rows with --file")
    if run.null_threshold is not None:
        model.with_null_threshold(run.null_threshold)
    rows = rows_of(model.task, model.learned.columns, run.columns)
    num_texts = len(rows.texts) if isinstance(rows, TextsAsked) else 1
    names = task_answers.names_kept(model.task, run.keep, num_texts)
    notes = [*predictor.notes, *model.notes]
    for name, called in names.items():
        if name != called:
            notes.append(f"the file's own column {name!r} is written as {called!r}")
    if isinstance(rows, TextsAsked):
        notes += _on_texts(model.learned, run.columns, num_texts)
    has_header = run.header and model.learned.has_header_with(run.columns)
    if run.header and not has_header and any(map(_has_named_columns, files)):
        notes.append(
            "the first row is read as one of them, as in the rows that the run learned from; where "
            "it names columns, name those to read with --columns"
        )
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    how = RowFiles(
        has_header=has_header,
        is_conll=run.conll,
        piped=run.piped,
        keep=run.keep,
        skip_malformed=run.skip_malformed,
    )
    questions = AskedQuestions(run.texts, files, rows, how)
    questions.check(model.unreadable, asks_all=run.squad is not None)  # as `evaluate` does
    num_cut = 0
    with shown(run, model.task, num_texts) as show:
        for entry, answer in answered(questions, predictor, WINDOW):
            show(entry, answer)
            num_cut += num_unread(answer) > 0
    questions.report()
    _report_cut(num_cut, questions.num_asked, model.task)
    tell_unknown(predictor)


def answered(
    questions: AskedQuestions, predictor: Predictor, size: int
) -> Iterator[tuple[Entry, TaskAnswer | None]]:
    """Every row with its answer, None where nothing in it could be read; `size` rows at a time."""
    model = predictor.fine_tuned
    with watched(questions, predictor, size) as windows:
        for window in windows:
            asked = [entry.asked for entry in window if entry.asked is not None]
            found = iter(model.answers(asked, predictor.watch))
            for entry in window:
                yield entry, None if entry.asked is None else next(found)


def loaded(run: AskTask) -> Predictor:
    """The model. Raises FileNotFoundError with what else may have been meant."""
    # Torch takes seconds to import: only now.
    from bertsmith.inference import Predictor
    from bertsmith.train.device import choose_device

    device = choose_device(run.device)
    try:
        return Predictor.load(
            run.model, device=device, precision=run.precision, task_class=run.task_class
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}; nor is {run.model!r} one of predict's own questions: {', '.join(QUESTIONS)}"
        ) from error


def require_free(run: AskTask) -> None:
    """Raises ValueError where answers would replace what nobody said to replace."""
    if run.out is None:
        return
    if run.squad is None and run.out.is_dir():
        raise ValueError(f"{run.out} is a directory: name a file")
    if run.squad is not None and run.out.exists() and not run.out.is_dir():
        raise ValueError(f"{run.out} is a file: with --squad name a directory")
    is_taken = any(run.out.iterdir()) if run.out.is_dir() else run.out.exists()
    if is_taken and not run.force:
        raise ValueError(f"{run.out} exists: name another, or replace it with --force")


@contextlib.contextmanager
def shown(run: AskTask, task: AnyTask | AnyOwnTask, num_texts: int) -> Iterator[Show]:
    """Where answers go; files appear when they are whole."""
    names = task_answers.names_kept(task, run.keep, num_texts)
    if run.out is not None and run.squad is not None:
        assert isinstance(task, SpanAnswering)
        with squad_files(run.out, task.config) as add:

            def show(entry: Entry, answer: TaskAnswer | None) -> None:
                assert isinstance(answer, AnsweredQuestion)
                add(str(entry.kept[KEY]), answer.found)

            yield show
    elif run.out is not None:
        with atomic_file(run.out) as raw:
            file = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            if run.out.suffix == ".csv":
                yield task_answers.as_csv(task, names, num_texts, file)
            else:
                yield task_answers.as_json(run.top_k, file, names)
            file.detach()
        print(f"wrote {run.out}", file=sys.stderr)
    elif run.csv:
        yield task_answers.as_csv(task, names, num_texts, sys.stdout)
    else:
        yield task_answers.as_json(run.top_k, None, names) if run.jsonl else as_lines(run.top_k)


def _on_texts(learned: Learned, named: Sequence[str], num_texts: int) -> list[str]:
    """What was assumed of a model that does not say what it reads, or that it learned otherwise."""
    if not named and not learned.columns:
        return ["assumed to read texts one by one: for pairs name two --columns"]
    return [note] if (note := learned.told_texts(num_texts)) else []


def _has_named_columns(file: Path) -> bool:
    return can_be_read_twice(file) and suffix_of(file.name) in (".csv", ".tsv", ".tab")


def _report_cut(num_cut: int, num_asked: int, task: AnyTask) -> None:
    match task:
        case SpanAnswering():
            told = f"{task.config.max_question_tokens} tokens that a question may have"
        case Classification() | MultipleChoice():
            told = f"{task.max_tokens} tokens that the task reads"
        case Tagging():
            return
    if num_cut:
        print(
            f"{num_cut:,} of {num_asked:,} were longer than the {told}: their end was not read",
            file=sys.stderr,
        )
