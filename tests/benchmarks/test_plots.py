import json

from benchmarks import plots
from benchmarks.plots import (
    beside_peers,
    draw_loss_parity,
    draw_speed,
    in_longer_turns,
    newest,
    of_real_text,
    rows_of,
    usual,
)

PNG = b"\x89PNG"


def speed_row(size, ours):
    speed = {"bertsmith": ours, "transformers default": 100.0, "transformers best": 300.0}
    return {
        "size": size, "batch": 32, "length": 128, "tokens_per_second": speed,
        "processor": "a processor", "threads": 2,
    }  # fmt: skip


def run(system, threads, losses):
    return {"system": system, "threads": threads, "losses": losses}


def test_the_newest_row_of_every_size_is_kept():
    rows = [speed_row("mini", 1.0), speed_row("base", 2.0), speed_row("mini", 3.0)]
    assert newest(rows, by="size") == [rows[2], rows[1]]


def test_pictures_are_of_a_cpu_as_it_is_on_full_short_sequences():
    row = speed_row("mini", 1.0)
    others = ({"device": "cuda"}, {"instructions": "AVX2"}, {"corpus": "wiki"}, {"length": 512})
    assert usual([row, *({**row, **other} for other in others)]) == [row]
    assert usual([{**row, "device": "cpu", "instructions": None, "corpus": None}])


def test_rows_are_read_in_order_and_none_where_there_is_no_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert rows_of(path) == []
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(3)), encoding="utf-8")
    assert [row["n"] for row in rows_of(path)] == [0, 1, 2]


def test_a_row_of_ours_alone_or_of_peers_alone_is_not_drawn():
    row = speed_row("mini", 1.0)
    alone = [{**row, "tokens_per_second": {name: 1.0}} for name in row["tokens_per_second"]]
    ours = {"bertsmith": 2.0, "bertsmith without a compiler": 1.0}
    assert beside_peers([row, *alone, {**row, "tokens_per_second": ours}]) == [row]


def test_turns_of_several_steps_are_drawn_where_a_size_has_them():
    rows = [speed_row("mini", 1.0), speed_row("base", 2.0), speed_row("mini", 3.0)]
    rows[0]["steps_a_turn"], rows[2]["steps_a_turn"] = 4, 1
    assert in_longer_turns(rows) == rows[:2]


def test_the_speed_of_two_sizes_is_drawn(tmp_path):
    draw_speed([speed_row("mini", 1200.0), speed_row("base", 400.0)], tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(PNG)


def test_equal_curves_can_be_drawn_though_their_axis_is_logarithmic(tmp_path):
    size = {"layers": 2, "hidden_size": 128}
    ours, peer = run("bertsmith", 2, [3.0, 2.0]), run("transformers", 1, [3.0, 2.0])
    row = {
        "float64": {**size, "runs": [ours, peer]},
        "float32": {
            **size, "runs": [ours, peer, run("transformers", 2, [3.0, 2.1])],
            "widths": [0.0, 0.1], "differences": [0.0, 0.0],
        },
    }  # fmt: skip
    draw_loss_parity(row, tmp_path / "parity.png")
    assert (tmp_path / "parity.png").read_bytes().startswith(PNG)


def test_answers_to_drawn_texts_are_drawn_only_where_there_are_no_others():
    rows = [{"size": size, "is_real_text": real} for size, real in
            (("mini", True), ("mini", False), ("base", False))]  # fmt: skip
    assert of_real_text(rows) == [rows[0], rows[2]]


def test_pictures_of_one_processor_are_written_where_asked(tmp_path, monkeypatch, capsys):
    rows = [{**speed_row("mini", ours), "processor": name}
            for ours, name in ((1.0, "old amx_bf16"), (2.0, "old avx2"))]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pretraining.jsonl").write_text(text, encoding="utf-8")
    monkeypatch.setattr(plots, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["plots", "--out", str(tmp_path), "--processor", "amx_bf16"])
    assert plots.rows_of_speed("amx_bf16") == rows[:1]
    assert plots.rows_of_speed("") == rows[1:]
    plots.main()
    assert capsys.readouterr().out == f"wrote {tmp_path / 'speed.png'}\n"
    assert (tmp_path / "speed.png").read_bytes().startswith(PNG)
