import json
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks import machine
from benchmarks.plots import draw_scaling
from benchmarks.scaling import __main__ as scaling
from benchmarks.scaling import axes, models, renamed
from benchmarks.scaling.axes import AXES, START, ModelPoint, Point, row_of, show, slope
from bertsmith.model.config import MINI, sized

TEXTS = [
    "The river runs past the old mill, and the miller Hobson sleeps. The river runs.",
    "Nobody in Wexcombe knew why the bells of St. Anne rang 3 times.\n\nThe river knew.",
]


def points(*costs):
    return [
        Point(value=value, seconds=seconds, peak_bytes=bytes_) for value, seconds, bytes_ in costs
    ]


def test_the_exponent_of_a_power_is_found():
    assert slope([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2)
    assert slope([1, 10], [5.0, 5.0]) == pytest.approx(0)
    assert slope([1], [5.0]) is None
    assert slope([1, 2], [0.0, 1.0]) is None


def test_each_axis_varies_one_thing_and_passes_its_start():
    for name, axis in AXES.items():
        start = axes.TRAINING if name.startswith("training") else axes.INFERENCE
        for value in axis.values:
            point = axis.at(value)
            changed = [
                field for field in ("work", "batch", "length")
                if getattr(point, field) != getattr(start, field)
            ]  # fmt: skip
            changed += ["config"] if point.config != start.config else []
            assert len(changed) <= 1
        assert start in [axis.at(value) for value in axis.values]
    assert axes.AXES["training, hidden size"].at(256).config == MINI


def test_a_row_has_its_points_in_order_and_both_exponents():
    row = row_of("some", "things", START, points((4, 9.0, 100), (1, 1.0, 100), (2, 3.0, 100)))
    assert [point["value"] for point in row["points"]] == [1, 2, 4]
    assert row["exponents"]["seconds"] == pytest.approx(1.585, abs=1e-3)
    assert row["last_exponents"] == pytest.approx({"seconds": 1.585, "peak_bytes": 0}, abs=1e-3)
    assert "seconds ~ value^1.58" in show(json.loads(json.dumps(row)))
    assert "too few points" in show(row_of("some", "things", START, points((1, 1.0, 1))))


def test_copies_keep_frequent_words_and_change_the_rare_ones_letter_for_letter():
    texts = [*TEXTS, "river " * renamed.FREQUENT]
    copies = renamed.renamed(texts)
    first, second = ([next(copies) for _ in texts] for _ in range(2))
    assert first != second
    for copy in (first, second):
        assert "Hobson" not in " ".join(copy)
        assert copy[2] == texts[2]
        for text, original in zip(copy, texts, strict=True):
            assert len(text) == len(original)
            assert [c.isupper() for c in text] == [c.isupper() for c in original]
            assert [c in "aeiouAEIOU" for c in text] == [c in "aeiouAEIOU" for c in original]
            assert text.count("river") == original.count("river")
    again = renamed.renamed(texts)
    assert [next(again) for _ in range(6)] == [*first, *second]


def test_new_words_keep_coming():
    copies = renamed.renamed(TEXTS)
    words = [Counter(next(copies).split()) for _ in range(20)]
    assert sum(1 for count in sum(words, Counter()).values() if count == 1) > 100


def test_as_much_text_is_written_as_is_wanted(tmp_path):
    written = renamed.write_text(TEXTS, 0.01, tmp_path / "text")
    files = sorted((tmp_path / "text").iterdir())
    assert written == sum(file.stat().st_size for file in files)
    texts = [json.loads(line)["text"] for line in files[0].read_text("utf-8").splitlines()]
    assert sum(len(text.encode("utf-8")) for text in texts) == 10_000


def test_texts_are_read_up_to_a_number_of_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("One sentence.\n\nAnother one.\n", encoding="utf-8")
    assert "".join(renamed.read_texts([tmp_path / "a.txt"], 5)) == "One s"
    assert "Another" in "".join(renamed.read_texts([tmp_path / "a.txt"], 1000))


@pytest.mark.parametrize("work", ["training", "inference"])
def test_a_model_is_measured_at_a_point(work):
    config = replace(sized(1, 32, 2), vocab_size=1200, max_position_embeddings=16)
    point = ModelPoint(work=work, config=config, batch=2, length=16)
    found = models.measured(models.Question(value=2, point=point, rounds=1, device="cpu"))
    assert found.value == 2
    assert found.seconds > 0
    assert found.peak_bytes > 1e7


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """What the program appends, by its options; no kernels are built."""
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("BERTSMITH_FUSION", "0")

    def run(*options):
        monkeypatch.setattr("sys.argv", ["scaling", *options])
        scaling.main()
        lines = (tmp_path / "scaling.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return run


def test_a_run_appends_a_row_an_axis(rows, monkeypatch, capsys):
    axis = axes.Axis(unit="texts", values=(1, 2, 3), at=axes.AXES["inference, batch"].at)
    monkeypatch.setitem(AXES, "inference, batch", axis)
    [row] = rows("--axis", "inference, batch", "--most-points", "2", "--rounds", "1")
    assert [point["value"] for point in row["points"]] == [1, 2]
    assert row["device"] == "cpu"
    assert "inference, batch (mini, 32 x 128)" in capsys.readouterr().out


def test_corpora_are_built_and_opened_and_large_ones_left_out(rows, tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join(TEXTS * 50), encoding="utf-8")
    building, opening = rows(
        "--axis", "corpus", "--text", str(tmp_path / "text.txt"), "--scratch", str(tmp_path),
        "--mb", "0.05", "--mb", "500", "--most-mb", "1",
    )  # fmt: skip
    assert (building["axis"], opening["axis"]) == axes.CORPUS_AXES
    assert building["start"] == "text.txt"
    for row in (building, opening):
        [point] = row["points"]
        assert point["value"] == pytest.approx(0.05, rel=0.2)
        assert point["peak_bytes"] > 1e7
        assert row["mb_per_second"] == [pytest.approx(point["value"] / point["seconds"])]
    assert not list(tmp_path.glob("tmp*"))


def test_every_axis_is_drawn(tmp_path):
    row = row_of("some", "things", START, points((1, 1.0, 10**8), (2, 3.0, 10**8)))
    rows_ = [{**row, "axis": str(n), "processor": "a processor", "threads": 2} for n in range(4)]
    draw_scaling(rows_, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
