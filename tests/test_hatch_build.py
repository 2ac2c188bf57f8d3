"""The wheel that carries libraries, as hatchling builds it."""

import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from bertsmith import compiler, libraries, processors
from bertsmith.libraries import carried_name

ROOT = Path(__file__).parent.parent
IS_ITS_SYSTEM = (sys.platform, platform.machine(), platform.libc_ver()[0]) == (
    *("linux", "x86_64", "glibc"),
)

builders = pytest.importorskip("hatchling.builders.wheel")
pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or not IS_ITS_SYSTEM, reason="no such compiler here"
)


@pytest.fixture
def project(tmp_path):
    """A copy of what a wheel is built of."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    left_out = shutil.ignore_patterns("__pycache__")  # where another process may be writing
    shutil.copytree(ROOT / "bertsmith", tmp_path / "bertsmith", ignore=left_out)
    return tmp_path


def wheel(project, monkeypatch, *, is_asked_for):
    monkeypatch.setenv("HATCH_BUILD_HOOK_ENABLE_CUSTOM", "1" if is_asked_for else "0")
    monkeypatch.setattr(sys, "path", [*sys.path])  # the hook puts the project before all others
    [path] = builders.WheelBuilder(str(project)).build(directory=str(project / "dist"))
    with zipfile.ZipFile(path) as file:
        return Path(path), [name for name in file.namelist() if name.endswith(".so")]


def pretended(source, build, folder):
    """In place of a library, which takes a compiler seconds."""
    place = folder / carried_name(source, build)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("built")
    return place


def test_a_wheel_carries_a_library_of_every_source_for_every_processor(project, monkeypatch):
    monkeypatch.setattr(compiler, "carry", pretended)
    path, names = wheel(project, monkeypatch, is_asked_for=True)
    release = platform.libc_ver()[1].replace(".", "_")
    assert path.name.endswith(f"-py3-none-manylinux_{release}_x86_64.whl")
    sources = sorted((ROOT / "bertsmith").rglob("*.cpp"))
    assert sorted(names) == sorted(
        f"bertsmith/built/{carried_name(source, build)}"
        for source in sources
        for build in processors.carried(source)
    )


def test_a_plain_wheel_carries_none_and_is_for_every_system(project, monkeypatch):
    monkeypatch.setattr(compiler, "carry", lambda *_: pytest.fail("built"))
    path, names = wheel(project, monkeypatch, is_asked_for=False)
    assert path.name.endswith("-py3-none-any.whl")
    assert names == []


def test_a_library_that_cannot_be_built_stops_the_wheel(project, monkeypatch):
    def failing(source, build, folder):
        raise subprocess.CalledProcessError(
            1, ["g++"], stderr="x.cpp: In function f:\nerror: unrecognized option\nmore"
        )

    monkeypatch.setattr(compiler, "carry", failing)
    with pytest.raises(RuntimeError, match=r"cpu_updates.cpp: error: unrecognized option$"):
        wheel(project, monkeypatch, is_asked_for=True)


def test_without_a_compiler_there_is_no_such_wheel(project, monkeypatch):
    monkeypatch.setattr(compiler, "is_there", lambda: False)
    with pytest.raises(RuntimeError, match="127 libraries need g"):
        wheel(project, monkeypatch, is_asked_for=True)


def test_elsewhere_there_is_no_such_wheel(project, monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(RuntimeError, match="is for Linux on x86-64 with glibc"):
        wheel(project, monkeypatch, is_asked_for=True)


@pytest.mark.slow
def test_this_compiler_builds_all_of_them(project, monkeypatch):
    path, names = wheel(project, monkeypatch, is_asked_for=True)
    assert len(names) == 103
    with zipfile.ZipFile(path) as file:
        file.extractall(project / "installed")
    broken = [name for name in names if not libraries.library_at(project / "installed" / name)]
    assert broken == []


COMPUTES = """
import torch
from bertsmith import compiler, native
from bertsmith.model import cpu_norm
from bertsmith.text import fast_wordpiece
assert not compiler.is_there()
assert native.library(cpu_norm.SOURCE) is not None
assert fast_wordpiece.is_there() is not None
norm = torch.nn.LayerNorm(64)
rows, more = torch.randn(2, 8, 64)
assert cpu_norm.suits(rows, more, norm)
found = cpu_norm.add_and_norm(rows, more, None, 0.0, norm)
torch.testing.assert_close(found, norm(rows + more))
print("computed from", compiler.__file__)
"""


def test_installed_on_a_machine_without_a_compiler_it_has_its_functions(project, monkeypatch):
    """Of this processor alone and two sources: others would take minutes."""
    kept = ("cpu_norm.cpp", "fast_wordpiece.cpp")
    for source in (project / "bertsmith").rglob("*.cpp"):
        if source.name not in kept:
            source.unlink()
    has = [name for name, is_there in torch.cpu.get_capabilities().items() if is_there]
    mine = processors._exact(torch.backends.cpu.get_cpu_capability(), has)
    plain = processors.carried
    monkeypatch.setattr(
        processors, "carried", lambda source: [mine] if len(plain(source)) > 1 else plain(source)
    )
    path, names = wheel(project, monkeypatch, is_asked_for=True)
    assert len(names) == 2
    with zipfile.ZipFile(path) as file:
        file.extractall(project / "installed")
    environment = {
        "PATH": "",
        "PYTHONPATH": str(project / "installed"),
        "XDG_CACHE_HOME": str(project / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMPUTES],
        cwd=project / "installed",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(project / "installed") in done.stdout
    assert not (project / "cache").exists()
