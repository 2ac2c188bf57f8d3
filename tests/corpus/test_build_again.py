"""A directory that holds a corpus, or a part of one that is being built, is built at again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.corpus import build
from bertsmith.corpus.build_rules import settings_of
from bertsmith.corpus.manifest import Manifest
from bertsmith.files import InUseError, lock
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer
from tests.corpus.building import (
    RULES,
    SPECIALS,
    WORDS,
    build_from,
    files_of,
    some_text,
)


def no_reading(*_: object) -> Iterator[object]:
    raise AssertionError("nothing is to be read again")


def test_a_finished_corpus_is_returned_as_it_is(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_from(folder, tmp_path / "out", tokenizer)
    monkeypatch.setattr(build, "read_blocks", no_reading)
    assert build_from(folder, tmp_path / "out", tokenizer) == first


def test_another_choice_does_not_overwrite_a_corpus_and_is_named(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "out", tokenizer)
    with pytest.raises(ValueError, match=r"other settings: seed \(there 0, now 5\)"):
        build_from(folder, tmp_path / "out", tokenizer, rules=replace(RULES, seed=5))
    other = Tokenizer(SPECIALS + WORDS[::-1])
    with pytest.raises(ValueError, match=r"other settings: vocabulary"):
        build_from(folder, tmp_path / "out", other)
    (folder / "more.txt").write_text(some_text(3))
    with pytest.raises(ValueError, match=r"other settings: input files"):
        build_from(folder, tmp_path / "out", tokenizer)


def test_text_edited_to_the_same_size_is_not_taken_for_the_corpus_made_before(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "out", tokenizer)
    path = folder / "1.txt"
    before = path.stat()
    path.write_text(path.read_text().replace("cat", "dog"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with pytest.raises(ValueError, match=r"other settings: input files"):
        build_from(folder, tmp_path / "out", tokenizer)


def test_a_large_file_is_known_by_its_beginning_and_its_end(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    path = tmp_path / "text.txt"
    lines = ["The cat sleeps near the river.\n"] * 10_000
    found = []
    for place in (None, 0, -1):
        edited = list(lines)
        if place is not None:
            edited[place] = "The dog sleeps near the river.\n"
        path.write_text("".join(edited))
        found.append(settings_of(find_sources([path], "lines"), tokenizer, RULES)["input"])
    assert len(set(found)) == 3


def test_a_copy_of_the_text_elsewhere_gives_the_corpus_made_before(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    first = build_from(folder, tmp_path / "out", tokenizer)
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    assert build_from(tmp_path / "copy", tmp_path / "out", tokenizer) == first


def test_two_builds_do_not_write_one_corpus(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    with lock(tmp_path / "out" / build.WORK_FOLDER / "lock"), pytest.raises(InUseError):
        build_from(folder, tmp_path / "out", tokenizer)


def test_a_corpus_finished_between_the_look_and_the_lock_is_not_written_again(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    finished: list[dict[str, bytes]] = []

    @contextlib.contextmanager
    def locked_late(path: Path) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(build, "lock", lock)
            build_from(folder, out, tokenizer)  # as another process
        finished.append(files_of(out))
        monkeypatch.setattr(build, "read_blocks", no_reading)
        with lock(path):
            yield

    monkeypatch.setattr(build, "lock", locked_late)
    manifest = build_from(folder, out, tokenizer)
    assert manifest == Manifest.read(out)
    assert [files_of(out)] == finished
