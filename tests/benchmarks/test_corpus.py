from benchmarks.corpus import Row, bare_seconds, line, memory_bound, write_sentences
from tests.checkpoints.tiny import tiny_tokenizer


def row(kind):
    return Row(
        kind=kind, files=["a"], input_bytes=1, characters=1, tokens=1, vocab_size=5, workers=2,
        bare_seconds=[1.0], build_seconds=[1.1], bare_rate=2.0, build_rate=1.8, share_of_bare=0.9,
        peak_bytes=300 << 20, memory_bound_bytes=memory_bound(2), bytes_a_token=2.08,
    )  # fmt: skip


def test_each_worker_beyond_two_may_take_two_hundred_megabytes():
    assert memory_bound(1) == memory_bound(2) == 1 << 30
    assert memory_bound(4) == (1 << 30) + 400_000_000


def test_sentences_are_written_one_a_line_and_counted(tmp_path):
    (tmp_path / "a.txt").write_text("The dog sat.\nIt ran.\n\nThe cat slept.\n", encoding="utf-8")
    out = tmp_path / "sentences"
    assert write_sentences([tmp_path / "a.txt"], out) == 33
    assert out.read_text(encoding="utf-8") == "The dog sat.\nIt ran.\nThe cat slept.\n"


def test_the_bare_tokenizer_is_timed_on_a_vocabulary_of_ours(tmp_path):
    tiny_tokenizer().save(tmp_path / "vocab")
    (tmp_path / "sentences").write_text("my dog is hairy .\n" * 50, encoding="utf-8")
    assert 0 < bare_seconds(tmp_path / "sentences", tmp_path / "vocab") < 5


def test_only_text_that_is_mostly_kept_is_judged():
    assert "90% (target 90%)" in line(row("plain"))
    assert "target" not in line(row("mediawiki"))
    assert "at most 300 MiB (bound 1,024)" in line(row("plain"))
