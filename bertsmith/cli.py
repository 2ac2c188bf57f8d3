"""What a person types -> the one command it names, with its options as a typed value.

Commands are named by strings and only the chosen one is imported, so `bertsmith --help` and a
mistyped name answer at once, without PyTorch. This file knows no command's options: each command's
frozen dataclass is its command line, made by tyro. It is read before what runs is imported, so that
a mistake in it is told at once too.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from bertsmith.commands import memory
from bertsmith.commands.mistakes import (
    hint,
    misspelt_option,
    mistake_in,
    switch_with_a_value,
    told_by_tyro,
)
from bertsmith.commands.spelling import in_their_case
from bertsmith.environment import prepare_environment
from bertsmith.files import InUseError
from bertsmith.tasks.generation import refusal

PERSON_MISTAKES = (ValueError, OSError, InUseError, ModuleNotFoundError, MemoryError)
EXIT_MISTAKE, EXIT_INTERRUPTED = 2, 130


@dataclass(frozen=True, kw_only=True)
class Command:
    """Where a command lives: FILE.NAME for what is in bertsmith/commands/FILE.py."""

    options: str
    """The dataclass (or union of dataclasses) that holds its options, in a file without PyTorch."""
    function: str
    """What runs it: options -> None."""
    summary: str
    """One line for the list of commands."""
    default: str = ""
    """A function, arguments -> options, where the defaults depend on an argument (a recipe)."""
    shorthand: str = ""
    """A function, arguments -> arguments, where a word may be left out."""
    check: str = ""
    """A function, arguments -> None, that raises where they name what is not there."""


COMMANDS = {
    "quickstart": Command(
        options="quickstart.Quickstart",
        function="quickstart.quickstart",
        summary="A small BERT from the English that Python carries, in five minutes.",
    ),
    "pretrain": Command(
        options="pretrain_options.Pretrain",
        function="pretrain.pretrain",
        summary="A folder of text -> a pre-trained BERT; or resume a run.",
        default="pretrain_options.defaults_of",
        check="typed.require_texts",
    ),
    "learn-vocab": Command(
        options="text_options.LearnVocab",
        function="learn_vocab.learn_vocab",
        summary="A folder of text -> a WordPiece vocabulary.",
        check="typed.require_texts",
    ),
    "build-corpus": Command(
        options="text_options.BuildCorpus",
        function="build_corpus.build_corpus",
        summary="A folder of text and a vocabulary -> a tokenised corpus.",
        check="typed.require_texts",
    ),
    "finetune": Command(
        options="finetune_options.Finetune",
        function="finetune.finetune",
        summary="A BERT and labelled examples -> a model of a task; or resume a run.",
        default="finetune_options.defaults_of",
        check="typed.require_model",
    ),
    "search": Command(
        options="search_options.Search",
        function="search.search",
        summary="A grid of values and random restarts -> the best fine-tuned model on Dev.",
        default="search_options.defaults_of",
        check="typed.require_model",
    ),
    "evaluate": Command(
        options="finetune_options.Evaluate",
        function="evaluate.evaluate",
        summary="Fine-tuned models and labelled examples -> their scores, as one where several.",
        check="typed.require_model",
    ),
    "predict": Command(
        options="predict_options.Predict",
        function="predict.predict",
        summary="A fine-tuned model's answers; fill masks, embed, compare, score, look.",
        default="predict_options.refuse_to_generate",
        shorthand="predict_options.run_or_question",
        check="typed.require_model",
    ),
    "explain": Command(
        options="explain_options.Explain",
        function="explain.explain",
        summary="A sentence or two -> the paper's figures of them: input, masks, sight, attention.",
        check="typed.require_model_option",
    ),
    "reproduce": Command(
        options="reproduce_options.Reproduce",
        function="reproduce.reproduce",
        summary="A table or figure of the paper, made anew beside the paper's own figures.",
    ),
    "write-submission": Command(
        options="write_submission.WriteSubmission",
        function="write_submission.write_submission",
        summary="Runs of GLUE's tasks -> the zip of answers that the benchmark takes.",
    ),
    "convert": Command(
        options="convert.Convert",
        function="convert.convert",
        summary="Any BERT -> transformers, sentence-transformers, ONNX or TensorFlow files.",
        check="typed.require_model",
    ),
    "join": Command(
        options="join.Join",
        function="join.join",
        summary="A left-to-right and a right-to-left model -> one, their states side by side.",
        check="typed.require_model",
    ),
    "extract": Command(
        options="extract_options.Extract",
        function="extract.extract",
        summary="A file of texts -> the hidden states of any BERT, as vectors on disk.",
        check="typed.require_model_option",
    ),
    "verify": Command(
        options="verify_options.Verify",
        function="verify.verify",
        summary="A certificate: whether a model, here, computes what BERT is defined to compute.",
        check="typed.require_model",
    ),
    "plot": Command(
        options="plot.Plot",
        function="plot.plot",
        summary="A run's metrics -> a picture of its curves.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 2 for a person's mistake, 130 after Ctrl-C.

    A mistake is one line on standard error. BERTSMITH_TRACEBACK=1 shows where it was raised.
    SIGTERM is as Ctrl-C.
    """
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # not UTF-8 on many a Windows: `?`, no crash
        sys.stdout.reconfigure(errors="replace")
    prepare_environment()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _stopped_as_by_ctrl_c():
            _obey(given)
        sys.stdout.flush()  # here, where a reader that has gone is no error
    except KeyboardInterrupt:
        print("bertsmith: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except PERSON_MISTAKES as mistake:
        if os.environ.get("BERTSMITH_TRACEBACK", "0") != "0":
            raise
        print(f"bertsmith: {_one_line(mistake)}", file=sys.stderr)
        return EXIT_MISTAKE
    return 0


def overview() -> str:
    """The list of commands, as `bertsmith --help` prints it."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        (
            "bertsmith makes BERTs: text -> vocabulary -> corpus -> pre-training -> answers.",
            "",
            "usage: bertsmith COMMAND [options]      bertsmith COMMAND --help lists its options",
            "",
            *lines,
            "",
            "first steps:  bertsmith quickstart      your own text:  bertsmith pretrain FOLDER",
        )
    )


def _open_closed_streams() -> None:
    """What whoever started this had closed (`>&-`) leads nowhere, and no file takes its number."""
    if sys.stdin is None:
        sys.stdin = _nowhere("r")
    if sys.stdout is None:
        sys.stdout = _nowhere("w")
    if sys.stderr is None:
        sys.stderr = _nowhere("w")


def _nowhere(mode: str) -> TextIO:
    """The null device, which processes begun from here have too."""
    number = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(number, True)
    return cast(TextIO, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace"))


@contextlib.contextmanager
def _stopped_as_by_ctrl_c() -> Iterator[None]:
    """While entered, SIGTERM raises KeyboardInterrupt: whoever stops tells what is kept.

    Not where somebody has chosen what it does, nor in a thread, which cannot choose.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _obey(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help", "help"):
        print(overview())
    elif given[0] in ("-V", "--version"):
        from importlib.metadata import version  # a tenth of what a typing error may take

        print(f"bertsmith {version('bertsmith')}")
    else:
        _run(_chosen(given[0]), given[0], given[1:])


def _chosen(name: str) -> Command:
    if name in COMMANDS:
        return COMMANDS[name]
    if told := refusal(name):
        raise ValueError(told)
    raise ValueError(f"there is no command '{name}'; {hint(name, COMMANDS)}")


def _run(command: Command, name: str, arguments: list[str]) -> None:
    options = _parsed(command, name, arguments)
    function = cast(Callable[[object], None], _found(command.function))
    try:
        function(options)
    except (MemoryError, RuntimeError) as error:  # PyTorch's own, of a GPU and of a CPU
        told = memory.told(error, type(options))
        if told is None:
            raise
        raise MemoryError(told) from error


def _parsed(command: Command, name: str, arguments: list[str]) -> object:
    """The options that the arguments name; ValueError where tyro would print a box and exit."""
    import tyro

    kind = cast(type[object], _found(command.options))
    if told := misspelt_option(arguments, kind, name):
        raise ValueError(told)
    if command.check and not {"-h", "--help"} & set(arguments):
        cast(Callable[[Sequence[str]], None], _found(command.check))(arguments)
    arguments = in_their_case(arguments, kind)
    default: object = tyro.MISSING_NONPROP
    if command.default:
        default = cast(Callable[[Sequence[str]], object], _found(command.default))(arguments)
    if command.shorthand:
        long = cast(Callable[[Sequence[str]], Sequence[str]], _found(command.shorthand))
        arguments = list(long(arguments))
    if told := switch_with_a_value(arguments, kind):
        raise ValueError(told)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(kind, prog=f"bertsmith {name}", args=arguments, default=default)
    except SystemExit as stop:
        if not stop.code:  # --help
            sys.stdout.flush()
            raise
        told = mistake_in(arguments, kind, name) or told_by_tyro(stop, printed.getvalue())
        raise ValueError(told) from stop


def _found(place: str) -> object:
    file, _, name = place.partition(".")
    return vars(importlib.import_module(f"bertsmith.commands.{file}"))[name]


def _one_line(mistake: BaseException) -> str:
    if isinstance(mistake, OSError) and mistake.filename is not None and mistake.strerror:
        return f"{mistake.strerror}: {mistake.filename}"
    return " ".join(str(mistake).split()) or type(mistake).__name__
