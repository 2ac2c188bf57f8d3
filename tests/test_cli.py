"""The command line: fast, helpful, and one line for a mistake."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith import cli

NO_HEAVY_IMPORT = """
import sys
from bertsmith.cli import main
status = main({arguments!r})
heavy = [name for name in {heavy!r} if name in sys.modules]
sys.exit(f"imported {{heavy}}" if heavy else status)
"""
HEAVY = ("torch", "numpy", "tyro", "tokenizers", "rich")

MISSPELT = {
    "quickstart": (["--minuts", "3"], "--minutes"),
    "pretrain": (["texts", "--lerning-rate", "3"], "--optimizer.learning-rate"),
    "finetune": (["m", "--lerning-rate", "3"], "--optimizer.learning-rate"),
    "search": (["m", "--grid.epoch", "3"], "--grid.epochs"),
    "evaluate": (["m", "--tasc", "RTE"], "--task"),
    "learn-vocab": (["texts", "--vocab-sise", "3"], "--vocab-size"),
    "build-corpus": (["texts", "--vocap", "v"], "--vocab"),
    "predict": (["fill-mask", "--modle", "mini-en", "x"], "--model"),
    "explain": (["my dog", "--hyde", "dog"], "--hide"),
    "write-submission": (["m", "--glu", "g"], "--glue"),
    "convert": (["m", "out", "--dtyp", "float16"], "--dtype"),
    "join": (["l", "r", "--uot", "x"], "--out"),
    "extract": (["a.txt", "--layer", "last", "--model", "m"], "--layers"),
    "verify": (["m", "--profil", "google"], "--profile"),
    "plot": (["--oot", "x"], "--out"),
    "reproduce": (["table5", "--scael", "tiny"], "--scale"),
}
"""An option of every command that is not quite one, and the nearest; some lack another one too."""

MISNAMED = [
    ["predict", "fill-mask", "--model", "mini-tset", "A [MASK]."],
    ["predict", "embed", "--model=mini-tset", "a"],
    ["predict", "mini-tset", "a"],
    ["finetune", "mini-tset", "--glue", "g", "--task", "RTE"],
    ["search", "mini-tset", "--glue", "g", "--task", "RTE"],
    ["evaluate", "mini-tset", "--glue", "g"],
    ["verify", "mini-tset"],
    ["convert", "mini-tset", "out"],
    ["join", "mini-tset", "m", "--out", "o"],
    ["extract", "a.txt", "--model", "mini-tset"],
    ["explain", "my dog", "--model", "mini-tset"],
]
"""Model arguments that nearly spell `mini-test`."""

LIGHT = (
    "pretrain", "finetune", "search", "evaluate", "learn-vocab", "build-corpus", "quickstart",
    "predict", "explain", "write-submission", "extract", "verify",
)  # fmt: skip
"""Commands whose options stand apart from what runs them."""


def run_python(code: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **changes},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    answer = run_python(NO_HEAVY_IMPORT.format(arguments=["--help"], heavy=HEAVY))
    assert answer.returncode == 0, answer.stderr
    for name, command in cli.COMMANDS.items():
        assert f"{name} " in answer.stdout
        assert command.summary in answer.stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["plot", "--help"]])
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "bertsmith", *words]
    try:
        ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_typing_error_is_one_line_with_the_nearest_command_and_status_2() -> None:
    answer = run_python(NO_HEAVY_IMPORT.format(arguments=["pretrian", "FOLDER"], heavy=HEAVY))
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == "bertsmith: there is no command 'pretrian'; did you mean 'pretrain'?\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_misspelt_option_is_one_line_with_the_nearest_before_torch_is_imported(name: str) -> None:
    arguments, nearest = MISSPELT[name]
    typed = next(argument for argument in arguments if argument.startswith("--"))
    answer = run_python(NO_HEAVY_IMPORT.format(arguments=[name, *arguments], heavy=("torch",)))
    assert answer.stderr == (
        f"bertsmith: there is no option '{typed}'; did you mean '{nearest}'?\n"
    )
    assert answer.returncode == 2
    assert answer.stdout == ""


def test_a_character_that_the_terminal_has_not_is_no_crash() -> None:
    code = "from bertsmith import cli; cli.overview = lambda: 'BERT 버트'; cli.main([])"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.stdout == "BERT ??\n", answer.stderr


@pytest.mark.parametrize("name", LIGHT)
def test_a_misspelt_option_imports_only_what_reads_options(name: str) -> None:
    heavy = [module for module in HEAVY if module != "tyro"]
    arguments = [name, *MISSPELT[name][0]]
    answer = run_python(NO_HEAVY_IMPORT.format(arguments=arguments, heavy=heavy))
    assert answer.stderr.startswith("bertsmith: there is no option")
    assert answer.returncode == cli.EXIT_MISTAKE, answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [["pretrain", "txt/enn"], ["pretrain", "txt", "txt/enn", "--minutes", "3"],
     ["learn-vocab", "txt/enn", "--out", "v"],
     ["build-corpus", "txt/enn", "--vocab", "v", "--out", "c"]],
    ids=" ".join,
)  # fmt: skip
def test_a_misspelt_folder_of_text_is_told_before_anything_heavy_is_imported(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "txt").mkdir()
    heavy = [module for module in HEAVY if module != "tyro"]
    code = f"import os; os.chdir({str(tmp_path)!r})\n"
    answer = run_python(code + NO_HEAVY_IMPORT.format(arguments=arguments, heavy=heavy))
    assert answer.stderr == "bertsmith: txt/enn: no such file or folder\n"
    assert answer.returncode == cli.EXIT_MISTAKE
    assert [path.name for path in tmp_path.iterdir()] == ["txt"]


@pytest.mark.parametrize("arguments", MISNAMED, ids=" ".join)
def test_a_misspelt_model_is_told_before_anything_heavy_is_imported(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "models/mini-test").mkdir(parents=True)
    (tmp_path / "models/mini-test/config.json").touch()
    heavy = ("torch", "tokenizers", "huggingface_hub")
    code = f"import os; os.chdir({str(tmp_path)!r})\n"
    answer = run_python(code + NO_HEAVY_IMPORT.format(arguments=arguments, heavy=heavy))
    assert answer.stderr.startswith("bertsmith: no model 'mini-tset': there is no ")
    assert "did you mean 'mini-test'?" in answer.stderr
    assert answer.returncode == cli.EXIT_MISTAKE


@pytest.mark.parametrize("arguments", MISNAMED, ids=" ".join)
def test_a_model_of_a_clone_is_told_where_there_is_no_clone(
    arguments: list[str], tmp_path: Path
) -> None:
    named = [word.replace("mini-tset", "mini-en") for word in arguments]
    code = (
        f"import os; os.chdir({str(tmp_path)!r})\n"
        "from bertsmith.checkpoints import project_models\n"
        f"project_models.__file__ = {str(tmp_path / 'bertsmith/checkpoints/x.py')!r}\n"
    )
    heavy = ("torch", "tokenizers", "huggingface_hub")
    answer = run_python(code + NO_HEAVY_IMPORT.format(arguments=named, heavy=heavy))
    assert answer.stderr.startswith("bertsmith: no model 'mini-en': there is no ")
    assert "it comes with a clone of the project only" in answer.stderr
    assert answer.returncode == cli.EXIT_MISTAKE


def test_sigterm_stops_as_ctrl_c_does_where_nobody_has_chosen_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_obey", lambda given: signal.raise_signal(signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert cli.main(["plot"]) == cli.EXIT_INTERRUPTED
        assert capsys.readouterr().err == "bertsmith: stopped\n"
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert cli.main(["plot"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell's words")
@pytest.mark.parametrize(
    ("closed", "status", "told"),
    [(">&-", 0, ""), ("<&- >&-", 0, ""), ("2>&-", 0, "usage"), ("<&- >&- 2>&-", 0, "")],
)
def test_closed_streams_lead_nowhere(closed: str, status: int, told: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m bertsmith --help {closed}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert told in done.stdout


def test_help_is_given_beside_a_folder_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["pretrain", "/nowhere/enn", "--help"])
    assert not stop.value.code
    assert "--minutes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["pretrian"], ["pretrain", "/nowhere/enn"],
     ["pretrain", "texts", "--minuts", "3"], ["pretrain", "texts", "--masking.rat", "0.2"],
     *([name, *MISSPELT[name][0]] for name in LIGHT),
     ["predict", "fill-mask", "--model", "mini-em", "A [MASK]."], ["verify", "mini-em"]],
    ids=" ".join,
)  # fmt: skip
def test_help_and_typing_errors_take_less_than_half_a_second_of_work(
    arguments: list[str], tmp_path: Path
) -> None:
    def seconds_of_work() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = NO_HEAVY_IMPORT.format(arguments=arguments, heavy=())
        run_python(code, PYTHONPYCACHEPREFIX=str(tmp_path), PYTHONDONTWRITEBYTECODE="")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds_of_work()  # compiles, as an installation does
    # Other work on the machine makes it slower and never faster.
    assert any(seconds_of_work() < 0.5 for _ in range(20))


def test_a_name_like_no_command_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["xyzzy"]) == 2
    assert ", ".join(cli.COMMANDS) in capsys.readouterr().err


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_the_parts_its_row_names(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = cli.COMMANDS[name]
    for place in filter(None, (command.options, command.function, command.default, command.check)):
        file, part = place.split(".")
        assert part in vars(importlib.import_module(f"bertsmith.commands.{file}"))
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_a_persons_mistake_is_one_line_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTSMITH_TRACEBACK", raising=False)
    assert cli.main(["plot", "/nowhere/at/all"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("bertsmith: ")
    assert "/nowhere/at/all" in captured.err
    assert captured.err.count("\n") == 1


def test_the_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTSMITH_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        cli.main(["plot", "/nowhere/at/all"])


def test_a_recipe_on_the_command_line_gives_the_defaults_of_every_field() -> None:
    from bertsmith.commands.pretrain import defaults_of
    from bertsmith.recipes.pretraining import RECIPES

    for name, recipe in RECIPES.items():
        assert defaults_of(["texts", "--recipe", name]).run == recipe()
        assert defaults_of([f"--recipe={name}", "texts"]).run == recipe()
    assert defaults_of(["texts"]).run == RECIPES["mini-cpu"]()
