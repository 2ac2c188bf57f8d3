from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertsmith.corpus import blocks, build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.store import Corpus
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.corpus.building import (
    RULES,
    build_from,
    files_of,
    some_text,
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 3000)


def documents_in(folder: Path) -> list[list[str]]:
    texts = [path.read_text() for path in sorted(folder.iterdir())]
    return [document.split("\n") for text in texts for document in text.strip().split("\n\n")]


def all_documents(corpus: Corpus) -> list[list[list[int]]]:
    return [
        [ids.tolist() for ids in corpus.document_sentences(number)]
        for number in range(corpus.num_documents)
    ]


def test_both_splits_together_hold_every_document_in_order(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "out", tokenizer)
    expected = [
        [tokenizer.ids([sentence])[0].tolist() for sentence in document]
        for document in documents_in(folder)
    ]
    splits = [
        all_documents(Corpus.open(tmp_path / "out", split)) for split in ("train", "held_out")
    ]
    assert len(splits[0]) + len(splits[1]) == len(expected)
    for document in expected:
        owner = next(split for split in splits if split and split[0] == document)
        owner.pop(0)


def test_the_report_counts_what_a_plain_count_finds(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    report = build_from(folder, tmp_path / "out", tokenizer).report
    documents = documents_in(folder)
    sentences = [sentence for document in documents for sentence in document]
    ids = tokenizer.ids(sentences)[0]
    assert report.documents == len(documents)
    assert report.sentences == len(sentences)
    assert report.tokens == len(ids)
    assert report.characters == sum(map(len, sentences))
    assert report.unknown_tokens == np.count_nonzero(ids == tokenizer.unk_id) > 0
    assert report.one_sentence_documents == sum(len(document) == 1 for document in documents) > 0
    kinds = {tuple(tokenizer.ids([sentence])[0].tolist()) for sentence in sentences}
    assert report.duplicate_lines == len(sentences) - len(kinds) > 0
    assert (report.files, report.input_bytes) == (
        3,
        sum(path.stat().st_size for path in folder.iterdir()),
    )


def test_the_held_out_share_is_near_what_was_asked_and_moves_with_the_seed(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    first = build_from(folder, tmp_path / "first", tokenizer)
    # 360 documents at 0.2: mean 72, deviation 7.6; six deviations.
    assert abs(first.report.held_out_documents - 72) < 46
    assert Corpus.open(tmp_path / "first", "held_out").num_documents == (
        first.report.held_out_documents
    )
    second = build_from(folder, tmp_path / "second", tokenizer, rules=replace(RULES, seed=1))
    assert second.shards["held_out"] != first.shards["held_out"]


def test_the_only_document_is_trained_on(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "one.txt").write_text("The cat sleeps.\nA dog runs.\n")
    rules = BuildRules(held_out=0.999)
    build_from(tmp_path / "one.txt", tmp_path / "out", tokenizer, rules=rules)
    assert Corpus.open(tmp_path / "out").num_documents == 1
    assert Corpus.open(tmp_path / "out", "held_out").num_documents == 0


@pytest.mark.parametrize(
    ("num_documents", "rules", "held_out"),
    [
        (12, BuildRules(holds_out_one=True), 1),
        (12, BuildRules(holds_out_one=True, shard_tokens=1), 1),
        (2, BuildRules(holds_out_one=True), 1),
        (1, BuildRules(holds_out_one=True), 0),
        (12, BuildRules(), 0),
    ],
)
def test_of_several_documents_the_last_is_held_out_where_the_share_finds_none(
    tmp_path: Path, tokenizer: Tokenizer, num_documents: int, rules: BuildRules, held_out: int
) -> None:
    (tmp_path / "text.txt").write_text(some_text(num_documents), encoding="utf-8")
    report = build_from(tmp_path / "text.txt", tmp_path / "out", tokenizer, rules=rules).report
    assert report.held_out_documents == report.held_out_beyond_share == held_out
    assert ("1 held out, the last: the share found none" in report.lines()[0]) == (held_out == 1)
    build_from(tmp_path / "text.txt", tmp_path / "all", tokenizer, rules=BuildRules(held_out=0))
    *trained_on, last = all_documents(Corpus.open(tmp_path / "all"))
    expected = (trained_on, [last]) if held_out else ([*trained_on, last], [])
    assert all_documents(Corpus.open(tmp_path / "out", verify=True)) == expected[0]
    assert all_documents(Corpus.open(tmp_path / "out", "held_out")) == expected[1]


def test_nothing_is_added_to_what_the_share_finds(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    drawn = build_from(folder, tmp_path / "drawn", tokenizer)
    rules = replace(RULES, holds_out_one=True)
    assert build_from(folder, tmp_path / "out", tokenizer, rules=rules).shards == drawn.shards


def test_token_counts_are_those_of_the_training_split(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "out", tokenizer)
    corpus = Corpus.open(tmp_path / "out")
    assert len(corpus.shards) > 3
    tokens = np.concatenate([shard.tokens for shard in corpus.shards])
    assert corpus.token_counts.tolist() == (
        np.bincount(tokens, minlength=tokenizer.vocab_size).tolist()
    )


def test_the_bytes_are_the_same_for_any_number_of_workers_and_size_of_block(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(folder, tmp_path / "one", tokenizer)
    build_from(folder, tmp_path / "three", tokenizer, num_workers=3)
    monkeypatch.setattr(blocks, "BLOCK_CHARACTERS", 20_000)
    build_from(folder, tmp_path / "blocks", tokenizer)
    assert files_of(tmp_path / "three") == files_of(tmp_path / "one")
    assert files_of(tmp_path / "blocks") == files_of(tmp_path / "one")


def test_an_input_of_nothing_but_blanks_is_an_error_that_says_what_was_left_out(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    page = '<doc id="1" url="" title="Empty">\nEmpty\n\n</doc>\n'
    (tmp_path / "wiki").write_text(page * 3)
    with pytest.raises(ValueError, match=r"holds no sentence: 1 files .*3 empty documents"):
        build_from(tmp_path / "wiki", tmp_path / "out", tokenizer)


def test_sentences_without_a_token_are_counted_and_left_out(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "text.txt").write_text("The cat sleeps.\n\u200b\nA dog runs.\n\n\u200b\u200b\n")
    report = build_from(tmp_path / "text.txt", tmp_path / "out", tokenizer).report
    assert (report.documents, report.sentences) == (1, 2)
    assert report.skipped["sentences without a token"] == 2
    assert report.skipped["documents without a sentence"] == 1


def test_a_sentence_beyond_65535_tokens_is_cut_and_counted(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "text.txt").write_text("cat " * 140_000 + "\nA dog runs.\n\nThe cat sleeps.\n")
    sources = find_sources([tmp_path / "text.txt"], "lines")
    report = build.build(sources, tokenizer, tmp_path / "out", BuildRules(held_out=0)).report
    assert (report.cut_sentences, report.sentences, report.tokens) == (1, 5, 140_008)
    assert "sentences cut           1" in report.lines()
    sentences = Corpus.open(tmp_path / "out").document_sentences(0)
    assert [len(ids) for ids in sentences] == [65_535, 65_535, 8_930, 4]


def test_a_folder_with_other_files_is_not_touched(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds files that are no corpus"):
        build_from(folder, tmp_path / "out", tokenizer)
    assert files_of(tmp_path / "out") == {"thesis.txt": b"years of work"}


def test_the_corpus_gives_its_tokenizer_and_refuses_another(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    build_from(folder, tmp_path / "out", tokenizer)
    corpus = Corpus.open(tmp_path / "out", verify=True)
    assert corpus.tokenizer().vocabulary == tokenizer.vocabulary
    other = Tokenizer(tokenizer.vocabulary, TokenizerConfig(lowercase=False))
    with pytest.raises(ValueError, match=r"does not belong to the corpus.*Use .*vocab"):
        corpus.check_vocabulary(other)


def test_progress_ends_at_the_whole_input(
    tmp_path: Path, folder: Path, tokenizer: Tokenizer
) -> None:
    seen: list[build.Progress] = []
    sources = find_sources([folder])
    report = build.build(
        sources, tokenizer, tmp_path / "out", RULES, on_progress=seen.append
    ).report
    assert len(seen) > 5
    assert [progress.bytes_read for progress in seen] == sorted(p.bytes_read for p in seen)
    assert seen[-1].bytes_read == seen[-1].input_bytes == report.input_bytes
    assert (seen[-1].documents, seen[-1].tokens) == (report.documents, report.tokens)
