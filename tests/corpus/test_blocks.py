from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.corpus import blocks
from bertsmith.reading.documents import Source, find_sources


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 1000)
    for number in range(3):
        text = "\n\n".join(f"The cat sleeps.\nDog {n} runs." for n in range(40 + number))
        (tmp_path / f"{number}.txt").write_text(text + "\n")
    return find_sources([tmp_path])


def test_blocks_hold_every_document_once_in_order(sources: list[Source]) -> None:
    found = list(blocks.read_blocks(sources, blocks.Position()))
    texts = [raw.text for block in found for raw in block.documents]
    assert [text.split("Dog ")[1].split()[0] for text in texts] == [
        str(n) for number in range(3) for n in range(40 + number)
    ]
    assert [block.end.number for block in found][-1] == len(texts) == 123
    assert found[-1].bytes_read == sum(source.size_bytes for source in sources)


def test_reading_goes_on_from_any_blocks_end(sources: list[Source]) -> None:
    whole = list(blocks.read_blocks(sources, blocks.Position()))
    assert len(whole) > 5
    assert {block.end.source for block in whole} == {0, 1, 2}
    for place, block in enumerate(whole[:-1]):
        assert list(blocks.read_blocks(sources, block.end)) == whole[place + 1 :]


def test_what_reading_skips_is_counted_once_however_often_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 300)
    rows = ['{"text": "The cat sleeps."}', '{"text": " "}'] * 30
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    sources = find_sources([tmp_path])
    position, skipped, documents = blocks.Position(), 0, 0
    while True:
        block, *others = blocks.read_blocks(sources, position)
        skipped += block.skipped.total()
        documents += len(block.documents)
        position = block.end
        if not others:
            break
    assert (documents, skipped) == (30, 30)
