"""`bertsmith predict RUN --task-class MODULE:CLASS`: a task class of a person's own -> its answers.

    bertsmith predict runs/mini-en-examples-train --task-class emphasis:Emphasis --file lines.txt

The class reads each file whole, and an answer comes for every example, in their order.
"""

from __future__ import annotations

import sys

from bertsmith.commands.answering import tell_unknown
from bertsmith.commands.asked_entry import Entry
from bertsmith.commands.asked_questions import require_files
from bertsmith.commands.predict_task import loaded, require_free, shown
from bertsmith.commands.predict_task_options import AskTask


def ask_own(run: AskTask) -> None:
    """Answers texts, then files; what was not read is reported.

    Raises ValueError or FileNotFoundError for what cannot be asked, all files being read before the
    first answer, and for whatever the class itself raises.
    """
    require_files(run.file)
    require_free(run)
    predictor = loaded(run)
    own = predictor.own
    predictor.tally.look_at(run.texts)  # what files hold, the class alone knows
    for note in predictor.notes:
        print(f"note: {note}", file=sys.stderr)
    typed = ("the arguments", own.of_texts(run.texts))
    sets = [typed, *((str(file), own.of_file(file)) for file in run.file)]
    with shown(run, own.task, 1) as show:
        for place, examples in sets:
            for answer in own.answers(examples):
                show(Entry(place=place, asked=None), answer)
    for note in own.notes:
        print(f"note: {note}", file=sys.stderr)
    if own.num_cut:
        print(
            f"{own.num_cut:,} of {own.num_sequences:,} sequences were longer than the task reads: "
            f"the rest of them was not read",
            file=sys.stderr,
        )
    tell_unknown(predictor)
