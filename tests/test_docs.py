"""README.md and docs/*.md: what they show runs, and every command they show exists.

Python blocks of a document are one session, run in an empty directory; a block with `>>>` must
print what it shows; runs that the document's own commands would leave are made up for it. Of the
shell's commands the cheap ones run on a tiny text; the others must at least be understood by the
command line. A block after `<!-- not run: reason -->` is not run, but its commands must still be
understood.
"""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from bertsmith import cli
from tests.commands.small_files import RUN as TOY_RUN
from tests.commands.small_run import FURTHER, TOY, write_text
from tests.commands.small_task import write_model
from tests.commands.toy_files import names_toy_files, write_toy_files
from tests.commands.toy_runs import write_toy_runs
from tests.pictures import leave_blank

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(```+)(\w*)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- not run: (.*?) -->\s*\Z")
INLINE = re.compile(r"(?<!`)`(bertsmith [^`\n]+)`(?!`)")
SHELLS = ("bash", "console", "sh")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    document: Path
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run; None for one that is."""

    @property
    def place(self) -> str:
        return f"{self.document.name}:{self.line}"

    def commands(self) -> Iterator[list[str]]:
        """Every command of a shell block, in words; in `console` blocks, lines after a `$`."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            yield from commands_in(line)


@dataclass(frozen=True)
class Shown:
    """One `bertsmith` command that a document shows."""

    place: str
    arguments: tuple[str, ...]
    runs: bool
    """True in a block that is not marked."""


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            document=document,
            line=text.count("\n", 0, found.start()) + 1,
            language=found[2],
            text=found[3],
            reason=mark[1] if (mark := MARK.search(text[: found.start()])) else None,
        )
        for found in BLOCK.finditer(text)
    ]


def commands_in(line: str) -> Iterator[list[str]]:
    """The commands of a line: parted at pipes and `&&`, without variables and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    tokens = [*lexer, ";"]
    skips = False
    for token in tokens:
        if set(token) <= set("|&;"):
            if words:
                yield words
            words, skips = [], False
        elif set(token) <= set("<>"):
            skips = True
        elif skips:
            skips = False
        elif words or not re.fullmatch(r"\w+=.*", token):
            words.append(token)


def arguments_of(words: list[str]) -> tuple[str, ...] | None:
    """What follows `bertsmith`, however it is started; None for another command."""
    for place, word in enumerate(words):
        if word == "bertsmith" and (place == 0 or words[place - 1] == "-m"):
            return tuple(words[place + 1 :])
    return None


def shown_in(document: Path) -> list[Shown]:
    """All `bertsmith` commands of the shell blocks, then those in the running text."""
    shown = [
        Shown(block.place, arguments, block.reason is None)
        for block in blocks_of(document)
        if block.language in SHELLS
        for words in block.commands()
        if (arguments := arguments_of(words)) is not None
    ]
    prose = BLOCK.sub("", document.read_text(encoding="utf-8"))
    for code in INLINE.findall(prose):
        if "..." not in code and "…" not in code and "COMMAND" not in code:
            shown.append(Shown(f"{document.name}: {code}", tuple(shlex.split(code)[1:]), False))
    return shown


def understood(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True when the command line takes these arguments; the command itself is not run."""
    name, *others = shown.arguments or ("--help",)
    if name.startswith("-"):
        return cli.main([name]) == 0
    if not others:
        return name in cli.COMMANDS
    command = cli.COMMANDS[name]
    called: list[object] = []
    file, function = command.function.split(".")
    module = importlib.import_module(f"bertsmith.commands.{file}")
    monkeypatch.setitem(vars(module), function, called.append)
    # What it names need not be there.
    monkeypatch.setitem(cli.COMMANDS, name, replace(command, check=""))
    try:
        return cli.main(list(shown.arguments)) == 0 and len(called) == 1
    except SystemExit as stop:
        return stop.code == 0 and "--help" in others


def cheap(arguments: tuple[str, ...]) -> list[str] | None:
    """The arguments to run, made smaller where needed; None for a command that is not cheap."""
    if not arguments or "--help" in arguments or arguments[0] in ("--version", "-V", "--help"):
        return list(arguments)
    folder = Path(arguments[1]) if len(arguments) > 1 else Path("-")
    is_folder = not arguments[1:2] or not (folder.suffix or str(folder).startswith("-"))
    if not is_folder or folder.is_absolute() or "--format" in arguments:
        return None
    if arguments[0] in ("learn-vocab", "build-corpus"):
        return [*arguments, "--workers", "1"] if "--workers" not in arguments else list(arguments)
    if arguments[0] == "pretrain" and "--plan-only" in arguments and "--recipe" not in arguments:
        return [*arguments, *(FURTHER if "--from" in arguments else TOY)]
    if arguments[0] == "finetune" and names_toy_files(arguments):
        return [*arguments, *TOY_RUN]
    return None


def prepared(arguments: list[str]) -> None:
    """Puts a tiny text, and a vocabulary where one is named, where a command expects them."""
    if len(arguments) < 2 or arguments[1].startswith("-"):
        return
    if arguments[0] == "finetune":
        write_toy_files(arguments)
        if not Path(arguments[1]).is_dir():  # else a run that a command above it made
            arguments[1] = str(write_model(Path("toy")))
        return
    if not Path(arguments[1]).exists():
        write_text(Path(arguments[1]))
    if "--add-words" in arguments:
        Path(arguments[arguments.index("--add-words") + 1]).write_text("teachers\nboats\n")
    if "--vocab" in arguments:
        vocabulary = arguments[arguments.index("--vocab") + 1]
        if not Path(vocabulary).exists():
            learn = ["learn-vocab", arguments[1], "--out", vocabulary, "--vocab-size", "300"]
            assert cli.main([*learn, "--workers", "1"]) == 0


@pytest.fixture
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs in an empty directory; commands may set the threads, and draw blank pictures."""
    monkeypatch.chdir(tmp_path)
    leave_blank(monkeypatch)
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


def document_name(document: Path) -> str:
    return document.name


@pytest.mark.usefixtures("_empty_directory")
@pytest.mark.parametrize("document", DOCUMENTS, ids=document_name)
def test_python_blocks_run_and_print_what_they_show(document: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF)
    report: list[str] = []
    blocks = blocks_of(document)
    said = "".join(block.text for block in blocks if block.language == "python")
    write_toy_runs([shown.arguments for shown in shown_in(document) if shown.runs], said)
    for block in blocks:
        if block.language != "python" or block.reason is not None:
            continue
        if ">>>" not in block.text:
            exec(compile(block.text, block.place, "exec"), names)
            continue
        session = doctest.DocTestParser().get_doctest(
            block.text, names, block.place, str(document), block.line
        )
        runner.run(session, out=report.append, clear_globs=False)
        names = session.globs
    assert not runner.summarize(verbose=False).failed, "".join(report)


@pytest.mark.parametrize("document", DOCUMENTS, ids=document_name)
def test_every_command_shown_is_understood(
    document: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown in shown_in(document):
        with monkeypatch.context() as patches:
            assert understood(shown, patches), (
                f"{shown.place} shows a command that does not exist: bertsmith "
                f"{shlex.join(shown.arguments)}\n{capsys.readouterr()}"
            )


@pytest.mark.usefixtures("_empty_directory")
@pytest.mark.parametrize("document", DOCUMENTS, ids=document_name)
def test_cheap_commands_run(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in shown_in(document):
        arguments = cheap(shown.arguments) if shown.runs else None
        if arguments is None:
            continue
        prepared(arguments)
        try:
            status: object = cli.main(arguments)
        except SystemExit as stop:
            status = stop.code
        assert status == 0, f"{shown.place}: {shlex.join(arguments)}\n{capsys.readouterr()}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=document_name)
def test_every_make_target_and_every_file_shown_is_there(document: Path) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for block in blocks_of(document):
        if block.language in SHELLS:
            for words in block.commands():
                if words[0] == "make":
                    assert set(words[1:]) <= set(targets), block.place
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#:\s]+)\)", text):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_more_blocks_run_than_are_left_out_and_those_say_why() -> None:
    blocks = [block for document in DOCUMENTS for block in blocks_of(document)]
    runnable = [block for block in blocks if block.language in ("python", *SHELLS)]
    left_out = [block for block in runnable if block.reason is not None]
    assert all(block.reason for block in left_out)
    assert len(left_out) < len(runnable) / 2, [block.place for block in left_out]


def test_a_command_that_does_not_exist_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("pretrain texts --no-such-option 3", "predict fill-blank --model x text"):
        assert not understood(Shown("here", tuple(shlex.split(line)), False), monkeypatch)
    assert understood(Shown("here", ("plot", "runs/a"), False), monkeypatch)


def test_commands_are_found_behind_variables_pipes_and_comments() -> None:
    line = 'A=1 cat "x y" | bertsmith predict fill-mask --model m > out.txt && make test  # why'
    assert list(commands_in(line)) == [
        ["cat", "x y"],
        ["bertsmith", "predict", "fill-mask", "--model", "m"],
        ["make", "test"],
    ]
    started = ["torchrun", "--nproc-per-node", "8", "-m", "bertsmith", "pretrain", "texts"]
    assert arguments_of(started) == ("pretrain", "texts")
    assert arguments_of(["pip", "install", "bertsmith"]) is None
