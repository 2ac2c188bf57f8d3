"""The options that name the columns of questions in rows -> where things stand in a row."""

from __future__ import annotations

from bertsmith.commands.task_files import TaskFiles
from bertsmith.tasks.own.question_rows import QuestionColumns


def columns_of(files: TaskFiles) -> QuestionColumns:
    """The columns that are named, the usual ones in place of the others."""
    named = {
        "key": files.key_column,
        "question": files.question_column,
        "passage": files.passage_column,
        "answers": files.answers_column,
        "start": files.start_column,
    }
    return QuestionColumns(**{name: each for name, each in named.items() if each is not None})
