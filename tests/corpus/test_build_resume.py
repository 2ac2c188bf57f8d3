from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bertsmith.corpus import blocks, build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.encoding import BlockEncoder, EncodedBlock
from bertsmith.text.tokenizer import Tokenizer
from tests.corpus.building import RULES, build_from, files_of
from tests.processes import is_running, wait_until


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 3000)


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    "rules", [RULES, BuildRules(held_out=0.0, holds_out_one=True, shard_tokens=2000)]
)
@pytest.mark.parametrize("stop_after", [1, 9, 22])
def test_a_stopped_build_goes_on_to_the_same_bytes(
    tmp_path: Path,
    folder: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    stop_after: int,
    rules: BuildRules,
) -> None:
    build_from(folder, tmp_path / "whole", tokenizer, rules=rules)
    encoded: list[int] = []
    encode = BlockEncoder.__call__

    def counted(self: BlockEncoder, block: blocks.Block) -> EncodedBlock:
        if len(encoded) == stop_after:
            raise Stopped
        encoded.append(block.end.number)
        return encode(self, block)

    with monkeypatch.context() as patch:
        patch.setattr(BlockEncoder, "__call__", counted)
        with pytest.raises(Stopped):
            build_from(folder, tmp_path / "out", tokenizer, rules=rules)
        stopped_at = encoded[-1]
        encoded.clear()
        stop_after = -1
        build_from(folder, tmp_path / "out", tokenizer, rules=rules)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    if stopped_at > 100:  # a shard was finished before: its documents are not encoded again
        assert encoded[0] > 20


KILLED_BUILD = """
    import multiprocessing, sys, time
    from pathlib import Path
    from bertsmith.corpus import blocks, build
    from bertsmith.corpus.build_rules import BuildRules
    from bertsmith.reading.documents import find_sources
    from bertsmith.text.tokenizer import Tokenizer

    if __name__ == "__main__":
        blocks.BLOCK_CHARACTERS = 3000
        folder, vocab, out = map(Path, sys.argv[1:])
        rules = BuildRules(held_out=0.2, shard_tokens=2000)

        def slowly(progress):
            workers = multiprocessing.active_children()
            Path("workers.new").write_text(" ".join(str(worker.pid) for worker in workers))
            Path("workers.new").replace("workers")
            time.sleep(1.0 if next(out.glob("*/progress.json"), None) else 0.05)

        build.build(
            find_sources([folder]), Tokenizer.load(vocab), out, rules, num_workers=2,
            on_progress=slowly,
        )
"""


def test_a_build_killed_by_the_system_goes_on_and_leaves_no_process(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "whole", tokenizer)
    tokenizer.save(tmp_path / "vocab")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KILLED_BUILD))
    command = [sys.executable, str(script), str(folder), str(tmp_path / "vocab")]
    process = subprocess.Popen([*command, str(tmp_path / "out")], cwd=tmp_path)
    record = tmp_path / "out" / build.WORK_FOLDER / "progress.json"
    wait_until(record.is_file)
    workers = [int(number) for number in (tmp_path / "workers").read_text().split()]
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out" / "manifest.json").exists()
    wait_until(lambda: not any(map(is_running, workers)))
    build_from(folder, tmp_path / "out", tokenizer)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
