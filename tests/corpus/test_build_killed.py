"""A build that dies at any moment, or whose ground moves, ends in the same bytes or in an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bertsmith.corpus import blocks, build, build_rules
from bertsmith.corpus.encoding import BlockEncoder, EncodedBlock
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer
from tests.corpus.building import RULES, build_from, files_of


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 3000)


@pytest.fixture
def half(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A build that stopped behind its third shard."""
    encode = BlockEncoder.__call__

    def stops(self: BlockEncoder, block: blocks.Block) -> EncodedBlock:
        if len(list((tmp_path / "out").glob("*/shard-*.tokens.npy"))) >= 3:
            raise InterruptedError
        return encode(self, block)

    with monkeypatch.context() as patch:
        patch.setattr(BlockEncoder, "__call__", stops)
        with pytest.raises(InterruptedError):
            build_from(folder, tmp_path / "out", tokenizer)
    return tmp_path / "out"


@pytest.mark.parametrize("renames", [1, 5, 6, 7, 30, -2, -1])
def test_a_build_killed_at_a_rename_goes_on_to_the_same_bytes(
    tmp_path: Path,
    folder: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    renames: int,
) -> None:
    replace, count = Path.replace, 0

    def counted(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", counted)
        build_from(folder, tmp_path / "whole", tokenizer)
    last = renames if renames > 0 else count + 1 + renames
    assert last <= count

    def killed(self: Path, target: Path) -> Path:
        nonlocal last
        last -= 1
        if not last:
            os._exit(9)
        return replace(self, target)

    def dies() -> None:
        monkeypatch.setattr(Path, "replace", killed)
        build_from(folder, tmp_path / "out", tokenizer)

    assert status_of_child(dies) == 9
    assert not (tmp_path / "out" / "manifest.json").exists()
    build_from(folder, tmp_path / "out", tokenizer)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def status_of_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_another_version_of_the_reader_does_not_go_on(
    half: Path, folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = build_rules.READER_VERSION
    with monkeypatch.context() as patch:
        patch.setattr(build_rules, "READER_VERSION", now + 1)
        message = rf"version of bertsmith's reader \(there {now}, now {now + 1}\)"
        with pytest.raises(ValueError, match=message):
            build_from(folder, half, tokenizer)
    manifest = build_from(folder, half, tokenizer)
    monkeypatch.setattr(build_rules, "READER_VERSION", now + 1)
    assert build_from(folder, half, tokenizer) == manifest


@pytest.mark.parametrize(
    "lost", ["building/pending-*", "building/hashes-*", "*/shard-*.document_marks*"]
)
def test_half_a_corpus_without_one_of_its_files_does_not_go_on(
    lost: str, half: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    next(iter(sorted(half.glob(lost)))).unlink()
    with pytest.raises(ValueError, match=r"is missing, one of 1 such files\. Delete"):
        build_from(folder, half, tokenizer)


def test_what_a_kill_left_behind_is_removed(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "whole", tokenizer)
    out = tmp_path / "out"
    for name in ("building/lock", "train/shard-00099.tokens.npy", ".manifest.json.a.part"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    build_from(folder, out, tokenizer)
    assert files_of(out) == files_of(tmp_path / "whole")


@pytest.mark.parametrize("names", [["building/notes", "thesis.txt"], ["train/shard-00000.x.npy"]])
def test_a_folder_that_only_looks_like_half_a_corpus_is_not_touched(
    names: list[str], tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    out = tmp_path / "out"
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    with pytest.raises(ValueError, match="holds files that are no corpus"):
        build_from(folder, out, tokenizer)
    assert list(files_of(out)) == sorted(names)


@pytest.mark.parametrize("is_longer", [True, False])
def test_text_that_changes_while_it_is_read_makes_no_corpus(
    is_longer: bool, tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    path = folder / "1.txt"

    def change(progress: build.Progress) -> None:
        path.write_text(path.read_text() + "A cat." * is_longer)

    with pytest.raises(ValueError, match=r"changed while it was read, \S+/1\.txt at last"):
        build.build(find_sources([folder]), tokenizer, tmp_path / "out", RULES, on_progress=change)
    assert not (tmp_path / "out" / "manifest.json").exists()
