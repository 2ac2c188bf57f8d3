from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from bertsmith.commands import build_corpus as command
from bertsmith.commands.build_corpus import build_corpus
from bertsmith.commands.text_options import BuildCorpus, ReadingChoices
from bertsmith.corpus import build
from bertsmith.corpus.build_rules import OtherSettingsError
from bertsmith.corpus.store import Corpus
from bertsmith.text.tokenizer import Tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sleeps", "dog", "runs", "."]


@pytest.fixture
def vocab(tmp_path: Path) -> Path:
    Tokenizer(WORDS).save(tmp_path / "vocab")
    return tmp_path / "vocab"


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text(text)
    return folder


def run(text: Path, vocab: Path, out: Path, workers: int = 0, **choices: object) -> str:
    output = io.StringIO()
    reading = ReadingChoices(workers=workers)
    options = BuildCorpus(inputs=(text,), vocab=vocab, out=out, reading=reading, **choices)  # type: ignore[arg-type]
    build_corpus(options, Console(file=output, width=200))
    return output.getvalue()


DOCUMENTS = "The cat sleeps.\nThe dog runs.\nA quark.\n\nThe cat sleeps.\n\n" * 20


def test_the_report_says_what_was_read_and_what_came_of_it(tmp_path: Path, vocab: Path) -> None:
    output = run(written(tmp_path / "text", DOCUMENTS), vocab, tmp_path / "out", held_out=0.3)
    corpus = Corpus.open(tmp_path / "out", verify=True)
    report = corpus.manifest.report
    assert f"documents               40 ({report.held_out_documents} held out)" in output
    assert "sentences               80" in output
    assert "unknown tokens          40 (13.333%)" in output
    assert "duplicate lines         77" in output
    assert "one-sentence documents  20" in output
    assert "bytes a token" in output


def test_a_second_call_finds_the_corpus_and_shows_the_same_report(
    tmp_path: Path, vocab: Path
) -> None:
    text = written(tmp_path / "text", DOCUMENTS)
    first = run(text, vocab, tmp_path / "out").splitlines()
    second = run(text, vocab, tmp_path / "out").splitlines()
    assert [line for line in first if line.startswith("  ")] == [
        line for line in second if line.startswith("  ")
    ]
    assert any("made before" in line for line in second)


def test_a_single_document_is_warned_of(tmp_path: Path, vocab: Path) -> None:
    text = written(tmp_path / "text", "The cat sleeps.\nThe dog runs.\n" * 5)
    output = run(text, vocab, tmp_path / "out")
    assert "warning: the corpus is a single document: next-sentence prediction needs" in output
    assert "warning: no document is held out" in output


@pytest.mark.parametrize(
    ("choices", "held_out", "is_warned"),
    [
        ({}, "1 held out, the last: the share found none", False),
        ({"held_out": 0.01}, "0 held out", True),
    ],
)
def test_a_typed_share_is_taken_at_its_word_and_the_default_one_finds_a_document(
    tmp_path: Path, vocab: Path, choices: dict[str, float], held_out: str, is_warned: bool
) -> None:
    text = written(tmp_path / "text", "The cat sleeps.\nThe dog runs.\n\n" * 12)
    output = run(text, vocab, tmp_path / "out", **choices)
    assert f"documents               12 ({held_out})" in output
    assert ("warning: no document is held out" in output) is is_warned
    assert "thousand characters/s" in output
    other = {} if choices else {"held_out": 0.01}
    with pytest.raises(OtherSettingsError, match="one document is held out at least"):
        run(text, vocab, tmp_path / "out", **other)


@pytest.mark.parametrize("choices", [{}, {"held_out": 0.01}])
def test_a_corpus_of_before_the_rule_is_found(
    tmp_path: Path, vocab: Path, choices: dict[str, float]
) -> None:
    text = written(tmp_path / "text", DOCUMENTS)
    run(text, vocab, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    del manifest["settings"]["holds_out_one"], manifest["report"]["held_out_beyond_share"]
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "made before" in run(text, vocab, tmp_path / "out", **choices)


@pytest.mark.parametrize(
    ("rate", "told"),
    [(40.0, "0.0 thousand"), (31_400.0, "31.4 thousand"), (2_340_000.0, "2.3 million")],
)
def test_a_slow_rate_is_told_in_thousands(rate: float, told: str) -> None:
    assert command._rate(rate) == f"{told} characters/s"


def test_documents_of_one_sentence_are_warned_of(tmp_path: Path, vocab: Path) -> None:
    text = written(tmp_path / "text", "The cat sleeps.\n\nThe dog runs.\n\n" * 20)
    assert "warning: 100% of the documents have one sentence" in run(text, vocab, tmp_path / "out")


def test_unknown_words_are_warned_of_before_the_work(tmp_path: Path, vocab: Path) -> None:
    output = run(written(tmp_path / "text", DOCUMENTS), vocab, tmp_path / "out")
    first = output.splitlines()[0]
    assert first.startswith("warning: 13.3% of the sample's tokens are unknown")


def test_nothing_is_written_for_a_vocabulary_of_another_language(
    tmp_path: Path, vocab: Path
) -> None:
    text = written(tmp_path / "text", "어제 늦게 잤어?\n어쩐지 피곤해 보이더라.\n\n" * 9)
    with pytest.raises(ValueError, match="does not belong to this text"):
        run(text, vocab, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_corpus_inside_its_own_input_is_refused(tmp_path: Path, vocab: Path) -> None:
    text = written(tmp_path / "text", DOCUMENTS)
    with pytest.raises(ValueError, match="lies inside the input"):
        run(text, vocab, text / "corpus")


def test_negative_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers must not be negative, found -1"):
        ReadingChoices(workers=-1)


def test_lines_of_progress_name_the_time_left(
    tmp_path: Path, vocab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertsmith.commands.stages._SECONDS_BETWEEN_LINES", -1.0)
    text = written(tmp_path / "text", DOCUMENTS)
    for number in range(3):
        (text / f"{number}.txt").write_text(DOCUMENTS)
    monkeypatch.setattr("bertsmith.corpus.blocks.BLOCK_CHARACTERS", 500)
    output = run(text, vocab, tmp_path / "out")
    lines = [line for line in output.splitlines() if line.startswith("build-corpus: ")]
    assert len(lines) >= 4
    assert lines[-1].startswith("build-corpus: done in ")
    lines = lines[:-1]
    assert lines[-1].startswith("build-corpus: 100% (160 documents, ")
    assert "tokens/s" in lines[-1]
    assert lines[-1].endswith(" left")


@pytest.mark.data
def test_real_wikipedia_takes_at_most_2_2_bytes_a_token_and_hardly_a_word_is_unknown(
    tmp_path: Path,
) -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    dump = next((data / "mediawiki").glob("*.bz2"))
    out = tmp_path / "out"
    run(dump, data / "vocab" / "bert-base-uncased", out, workers=2)
    corpus = Corpus.open(out, verify=True)
    report = corpus.manifest.report
    assert report.tokens > 300_000
    assert report.unknown_tokens < report.tokens / 1000
    size = sum(file.stat().st_size for file in out.glob("*/shard-*"))
    assert size / report.tokens < 2.2
    assert not (out / build.WORK_FOLDER).exists()
