from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from bertsmith.corpus.manifest import Manifest
from bertsmith.corpus.store import Corpus, OpenArrays, array_path
from bertsmith.corpus.writer import Documents, ShardWriter, token_type
from tests.data.corpora import TokenDocument, documents_of, write_corpus


def some_documents(number: int, seed: int = 0) -> list[TokenDocument]:
    draw = np.random.default_rng(seed)
    return [
        [
            draw.integers(0, 1000, draw.integers(1, 30)).tolist()
            for _ in range(int(draw.integers(1, 90)))
        ]
        for _ in range(number)
    ]


def flat(document: TokenDocument) -> list[int]:
    return [token for sentence in document for token in sentence]


def test_documents_come_back_as_written_across_shards(tmp_path: Path) -> None:
    documents = some_documents(60)
    corpus = Corpus.open(write_corpus(tmp_path, {"train": documents}, shard_tokens=5000))
    assert len(corpus.shards) > 3
    assert corpus.num_documents == 60
    assert corpus.num_sentences == sum(map(len, documents))
    assert corpus.num_tokens == sum(len(flat(document)) for document in documents)
    for number, document in enumerate(documents):
        assert [ids.tolist() for ids in corpus.document_sentences(number)] == document


def test_ranges_in_split_numbers_read_from_every_shard_in_the_order_asked(tmp_path: Path) -> None:
    documents = some_documents(60)
    corpus = Corpus.open(write_corpus(tmp_path, {"train": documents}, shard_tokens=5000))
    tokens = [token for document in documents for token in flat(document)]
    bases = np.cumsum([0] + [len(flat(document)) for document in documents])
    order = np.random.default_rng(1).permutation(60)
    starts, ends = bases[order] + 1, bases[order + 1]
    ids, lengths = corpus.read(starts, ends)
    assert ids.dtype == np.int32
    assert lengths.tolist() == (ends - starts).tolist()
    expected = [token for s, e in zip(starts, ends, strict=True) for token in tokens[s:e]]
    assert ids.tolist() == expected


def test_marks_and_borders_agree_with_a_plain_walk(tmp_path: Path) -> None:
    documents = some_documents(40)
    corpus = Corpus.open(write_corpus(tmp_path, {"train": documents}, shard_tokens=9000))
    number = token_base = 0
    for shard in corpus.shards:
        assert (shard.document_base, shard.token_base) == (number, token_base)
        here = documents[number : number + shard.num_documents]
        sentence_starts = np.cumsum([0] + [len(s) for d in here for s in d])
        assert shard.sentences.edges().tolist() == sentence_starts.tolist()
        assert shard.sentences.marks.tolist() == sentence_starts[:-1:64].tolist()
        first_sentences = np.cumsum([0] + [len(document) for document in here])
        assert shard.documents.edges().tolist() == first_sentences.tolist()
        assert shard.documents.marks.tolist() == first_sentences[:-1:64].tolist()
        number, token_base = number + shard.num_documents, token_base + shard.num_tokens
    assert number == 40
    asked = np.arange(40)
    owners = corpus.shard_of_document(asked)
    for document, owner in zip(asked.tolist(), owners.tolist(), strict=True):
        shard = corpus.shards[owner]
        assert 0 <= document - shard.document_base < shard.num_documents


@pytest.mark.parametrize("cuts", [[], [1], [7, 7, 20], range(30)])
def test_shards_do_not_depend_on_how_documents_are_handed_over(
    cuts: list[int], tmp_path: Path
) -> None:
    documents = documents_of(some_documents(30))
    whole = ShardWriter(tmp_path / "whole", 1000, shard_tokens=3000)
    whole.append(documents)
    whole.flush()
    parts = ShardWriter(tmp_path / "parts", 1000, shard_tokens=3000)
    edges = [0, *cuts, 30]
    for start, end in itertools.pairwise(edges):
        parts.append(documents.cut(end)[0].cut(start)[1])
    parts.flush()
    assert parts.shards == whole.shards  # checksums included
    assert parts.counts.tolist() == whole.counts.tolist()


@pytest.mark.parametrize("shard_tokens", [1, 3000, 1 << 24])
def test_a_document_taken_back_leaves_no_trace(tmp_path: Path, shard_tokens: int) -> None:
    documents = documents_of(some_documents(30))
    without = ShardWriter(tmp_path / "without", 1000, shard_tokens=shard_tokens)
    without.append(documents.cut(29)[0])
    taken = ShardWriter(tmp_path / "taken", 1000, shard_tokens=shard_tokens)
    taken.append(documents)
    latest = taken.take_last()
    for writer in (without, taken):
        writer.flush()
    assert taken.shards == without.shards
    assert taken.counts.tolist() == without.counts.tolist()
    assert latest.token_ids.tolist() == documents.cut(29)[1].token_ids.tolist()


def test_a_writer_continues_from_what_was_set_aside(tmp_path: Path) -> None:
    documents = documents_of(some_documents(30))
    first, second = documents.cut(17)
    whole = ShardWriter(tmp_path / "whole", 1000, shard_tokens=4000)
    whole.append(documents)
    whole.flush()
    before = ShardWriter(tmp_path / "continued", 1000, shard_tokens=4000)
    before.append(first)
    after = ShardWriter(
        tmp_path / "continued",
        1000,
        shard_tokens=4000,
        shards=before.shards,
        counts=before.counts,
    )
    after.append(before.pending())
    after.append(second)
    after.flush()
    assert after.shards == whole.shards
    assert after.counts.tolist() == whole.counts.tolist()


def test_selecting_documents_keeps_their_sentences_and_tokens() -> None:
    documents = some_documents(12)
    chosen = np.arange(12) % 3 == 1
    expected = documents_of([documents[number] for number in np.flatnonzero(chosen)])
    found = documents_of(documents).select(chosen)
    assert found.token_ids.tolist() == expected.token_ids.tolist()
    assert found.sentence_lengths.tolist() == expected.sentence_lengths.tolist()
    assert found.sentence_counts.tolist() == expected.sentence_counts.tolist()


def test_a_token_takes_two_bytes_up_to_65536_entries_and_four_above(tmp_path: Path) -> None:
    assert (token_type(65_536), token_type(65_537)) == (np.uint16, np.uint32)
    ids = [[[65_535, 65_536, 69_999]]]
    corpus = Corpus.open(write_corpus(tmp_path, {"train": ids}, vocab_size=70_000))
    assert corpus.document_sentences(0)[0].tolist() == [65_535, 65_536, 69_999]


@pytest.mark.parametrize(
    ("length", "sentences", "longest"),
    [(20, 50, 300), (20, 50, 20), (6, 50, 255), (8, 3, 99), (4, 50, 300), (3, 50, 9), (5, 3, 300)],
)
def test_at_most_2_2_bytes_a_token(
    length: int, sentences: int, longest: int, tmp_path: Path
) -> None:
    documents = [[[5] * length] * sentences] * 4000
    write_corpus(tmp_path, {"train": [*documents, [[5] * longest]]})
    used = sum(file.stat().st_size for file in (tmp_path / "train").iterdir())
    assert used / (4000 * sentences * length + longest) <= 2.2


def test_long_sentences_are_read_back_beside_short_ones(tmp_path: Path) -> None:
    short, long = [[5] * 255, [6]], [[7] * 256, [8] * 3]
    write_corpus(tmp_path, {"train": [short, long]}, shard_tokens=200)
    corpus = Corpus.open(tmp_path)
    assert [shard.sentences.long.shape[1] for shard in corpus.shards] == [0, 1]
    for number, document in enumerate((short, long)):
        assert [each.tolist() for each in corpus.document_sentences(number)] == document


def test_the_unigram_entropy_is_that_of_the_training_tokens(tmp_path: Path) -> None:
    corpus = Corpus.open(write_corpus(tmp_path, {"train": [[[1, 2, 3, 4]]], "held_out": [[[5]]]}))
    assert corpus.unigram_entropy == pytest.approx(np.log(4), rel=1e-12)
    assert Corpus.open(tmp_path, "held_out").unigram_entropy == corpus.unigram_entropy


def test_a_pickled_corpus_reads_the_same(tmp_path: Path) -> None:
    corpus = Corpus.open(write_corpus(tmp_path, {"train": some_documents(9)}, shard_tokens=999))
    everything = np.int64([shard.token_base for shard in corpus.shards])
    corpus.read(everything, everything + 1)
    content = pickle.dumps(corpus)
    assert len(content) < 100_000
    again = pickle.loads(content)
    assert again.read(everything, everything + 1)[0].tolist() == (
        corpus.read(everything, everything + 1)[0].tolist()
    )


def test_no_more_files_stay_open_than_the_limit(tmp_path: Path) -> None:
    for number in range(5):
        np.save(tmp_path / f"{number}.npy", np.arange(3) + number)
    open_arrays = OpenArrays(limit=2)
    for number in range(5):
        assert open_arrays(tmp_path / f"{number}.npy").tolist() == [number, number + 1, number + 2]
    assert open_arrays._load.cache_info().currsize == 2


def test_an_unfinished_corpus_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"not a finished corpus.*build-corpus"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["train/shard-00001.documents.npy", "train/shard-00000.sentence_marks.npy", "counts.npy"],
)
def test_a_missing_file_is_named_when_the_corpus_is_opened(tmp_path: Path, name: str) -> None:
    corpus = Corpus.open(write_corpus(tmp_path, {"train": some_documents(9)}, shard_tokens=999))
    assert len(corpus.shards) > 1
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing.*build it again"):
        Corpus.open(tmp_path)


def test_a_manifest_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "something else"}')
    with pytest.raises(ValueError, match="not a corpus manifest"):
        Corpus.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99, this version reads 3"):
        Corpus.open(tmp_path)


def test_the_manifest_comes_back_equal(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"train": some_documents(9)}, shard_tokens=999)
    manifest = Manifest.read(tmp_path)
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert json.loads((tmp_path / "manifest.json").read_text())["format"] == 3


def test_verifying_finds_one_changed_byte(tmp_path: Path) -> None:
    corpus = Corpus.open(write_corpus(tmp_path, {"train": some_documents(3)}), verify=True)
    shard = corpus.shards[0]
    path = array_path(shard.directory, shard.facts.name, "tokens")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-00000.tokens.npy is damaged"):
        Corpus.open(tmp_path, verify=True)


def test_no_documents_give_no_shard(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, 1000)
    writer.append(Documents.join([], np.uint16))
    writer.flush()
    assert writer.shards == []
