"""Tables of docs/results.md and docs/answers.md: as their rows are, and made of them alone."""

import json
import re

import pytest

from benchmarks.tables import shown
from benchmarks.tables.__main__ import DOCUMENTS, rewritten
from benchmarks.tables.shown import amount

PRETRAINING = [
    {
        "matrix_flops_per_second": 1.25e12,
        "tokens_per_second": {
            "bertsmith": 1000.0,
            "bertsmith without a compiler": 755.0,
            "bertsmith's wheel without a compiler": 990.0,
            "transformers best": 300.0,
        },
        "fraction_of_matrix_rate": {"bertsmith": 0.505},
        "peak_bytes": {"bertsmith": 1.04e9, "transformers best": 2.96e9},
    },
    {
        "matrix_flops_per_second": 1.0e12,
        "tokens_per_second": {"transformers default": 99.96},
        "fraction_of_matrix_rate": {"transformers default": 0.1},
    },
]


def answered(threads, **speeds):
    rates = {name.replace("_", " "): value for name, value in speeds.items()}
    return {
        "threads": threads,
        "versions": {"openvino": "2026.4.1"},
        "settings": {
            "embed, mixed": {
                "texts_per_second": {**rates, "OpenVINO, throughput": 40.0 * threads},
                "fraction_of_matrix_rate": {"bertsmith": 0.5},
            },
            "one text, 16 tokens": {"median_ms": {"bertsmith": 1.0, "OpenVINO, throughput": 4.0}},
        },
    }


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Writes rows where tables look for them."""
    monkeypatch.setattr(shown, "RESULTS", tmp_path)

    def write(name, rows):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")

    return write


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_document_is_as_its_rows_are(document):
    text = document.read_text(encoding="utf-8")
    named = [line for line in text.split("\n") if re.match(r"\| .+(, rows? \d| \| rows \|)", line)]
    assert len(named) > 5
    assert rewritten(text) == text, "python -m benchmarks.tables makes it so"


def test_a_line_of_pre_training_is_made_of_all_rows_that_it_names(results):
    results("pretraining", PRETRAINING)
    header = "| tokens a second | rows | matrix rate | bertsmith |"
    lines = rewritten(f"before | it\n\n{header}\n|---|\n| **here** |  |\n| BASE | 1, 2 | old |")
    assert lines.split("\n")[4:] == [
        "| **here** |" + "  |" * 10,
        "| BASE | 1, 2 | 1.25 | **1,000** | 50% | 300 | 3.33 x | 100 | 10.0 x "
        "| 755, 76%; from a wheel 990, 99% | 1.0, 3.0 GB |",
    ]


def test_of_a_peers_forms_the_faster_one_counts(results):
    row = {**PRETRAINING[0], "tokens_per_second": {**PRETRAINING[0]["tokens_per_second"]}}
    row["tokens_per_second"]["transformers best, eager attention"] = 400.0
    row["peak_bytes"] = {**row["peak_bytes"], "transformers best, eager attention": 4e9}
    results("pretraining", [row])
    found = rewritten("| tokens a second | rows |\n|---|\n| BASE | 1 |").split("\n")
    assert "| 400 | 2.50 x |" in found[2]
    assert found[2].endswith("| 1.0, 4.0 GB |")
    peers = {"transformers, best": 250, "transformers, best, compiled": 500}
    speeds = {"bertsmith": 1000, "transformers, scripts' default": 100, **peers}
    results("finetuning_speed", [{"task": "MNLI", "mean_tokens": 9, "examples_per_second": speeds}])
    found = rewritten("| examples a second | rows |\n|---|\n| MNLI | 1 |").split("\n")
    assert found[2] == "| MNLI | 1 | 9 | **1,000** | 500 | 2.00 x | 100 | 10.0 x |  |"


def test_a_line_of_fine_tuning_shows_one_row_and_the_ratios_of_others(results):
    names = ("bertsmith", "transformers, best", "transformers, scripts' default")
    tasks = ("MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")
    speeds = [dict(zip(names, each, strict=True)) for each in ((1000, 250, 80), (990, 330, 99))]
    made = {"mean_tokens": 11.4}
    rows = [
        {**made, "task": task, "examples_per_second": each} for each in speeds for task in tasks
    ]
    results("finetuning_speed", rows)
    lines = "\n".join(f"| {task} | {row}, {row + 8} |" for row, task in enumerate(tasks, 1))
    header = "| examples a second, Mini | rows | tokens |"
    found = rewritten(f"{header}\n|---|\n{lines}\n| GLUE |  |").split("\n")
    assert (
        found[2] == "| MNLI | 1, 9 | 11 | **1,000** | 250 | 4.00 x | 80.0 | 12.5 x | 3.00, 10.0 |"
    )
    # 949,508 examples by 1,000, 250 and 80 a second.
    epoch = "**16 minutes** | 63 minutes | 4.00 x | 198 minutes | 12.5 x | 3.00, 10.0"
    assert found[-1] == f"| GLUE |  |  | {epoch} |"
    assert "16 minutes" not in rewritten(f"{header}\n|---|\n{lines}")


def test_a_table_of_answers_has_a_column_a_setting_and_number_of_threads(results):
    results("inference", [answered(1, bertsmith=50.0), answered(2, bertsmith=99.94)])
    found = rewritten("| MINI, newer code, rows 1, 2 | gone |\n|---|---|\n| gone |").split("\n")
    assert found == [
        "| MINI, newer code, rows 1, 2 | vectors, mixed: 1 thread | 2 "
        "| one text, ms, 16 tokens: 1 thread | 2 |",
        "|---|---|---|---|---|",
        "| **bertsmith** | **50.0** | **99.9** | **1.00** | **1.00** |",
        "| OpenVINO 2026.4, throughput hint | 40.0 | 80.0 | 4.00 | 4.00 |",
        "| of the matrix rate | 50% | 50% |  |  |",
        "| beside OpenVINO's better hint | 1.25 x | 1.25 x | 0.25 | 0.25 |",
    ]


def test_of_eight_bits_the_best_other_is_told_where_there_are_several(results):
    row = answered(2, bertsmith=1.0, bertsmith_int8=60.0, OpenVINO_int8=20.0, CTranslate2_int8=30.0)
    results("inference", [row])
    found = rewritten("| MINI, row 1 |\n|---|\n").split("\n")
    assert "| in eight bits, beside OpenVINO's | 3.00 x |  |" in found
    assert "| in eight bits, beside the best other | 2.00 x |  |" in found


def test_in_eight_bits_the_better_hint_is_the_one_that_counts(results):
    row = answered(2, bertsmith=1.0, bertsmith_int8=60.0)
    hints = {"OpenVINO int8, latency": 20.0, "OpenVINO int8, throughput": 40.0}
    row["settings"]["embed, mixed"]["texts_per_second"] |= hints
    results("inference", [row])
    found = rewritten("| MINI, row 1 |\n|---|\n").split("\n")
    assert "| in eight bits, beside OpenVINO's | 1.50 x |  |" in found
    assert [line.split("|")[1] for line in found if "int8, " in line] == [
        " OpenVINO int8, throughput hint ",
        " OpenVINO int8, latency hint ",
    ]


def test_a_line_of_answers_in_short_takes_each_setting_from_the_last_row_that_has_it(results):
    first = answered(2, bertsmith=99.94, bertsmith_int8=60.0, OpenVINO_int8=20.0)
    first["settings"]["embed, mixed"]["texts_per_second"]["transformers default"] = 12.5
    later = {"settings": {"one text, 16 tokens": {"median_ms": {"bertsmith": 3.0}}}}
    later["settings"]["one text, 16 tokens"]["median_ms"]["OpenVINO, latency"] = 2.0
    results("inference", [first, later])
    found = rewritten("| answers, two threads | rows |\n|---|\n| Mini | 1, 2 |\n| BASE | 1 |")
    vectors = "**99.9** | 80.0 | 1.25 x | 12.5 | 8.00 x |  | "
    assert found.split("\n")[2:] == [
        f"| Mini | 1, 2 | {vectors} | **3.00** | 2.00 | 1.50 | **60.0** | 3.00 x |",
        f"| BASE | 1 | {vectors} | **1.00** | 4.00 | 0.25 | **60.0** | 3.00 x |",
    ]


def test_a_line_of_answers_in_short_is_empty_where_rows_have_nothing(results):
    row = answered(2, bertsmith=50.0)
    del row["settings"]["embed, mixed"]["texts_per_second"]["OpenVINO, throughput"]
    del row["settings"]["one text, 16 tokens"]
    results("inference", [row])
    found = rewritten("| answers, two threads | rows |\n|---|\n| Mini, a GPU | 1 |").split("\n")
    assert found[2] == "| Mini, a GPU | 1 | **50.0** |" + "  |" * 11


@pytest.mark.parametrize("number", [0, 3])
def test_a_row_that_is_not_there_is_named(results, number):
    results("pretraining", PRETRAINING)
    with pytest.raises(ValueError, match=rf"pretraining\.jsonl has rows 1 to 2, not {number}"):
        rewritten(f"| tokens a second | rows |\n|---|---|\n| BASE | {number} |")


def test_other_tables_and_all_else_stay_as_they_are():
    text = "a | b\n|x|y \\| z|\n|--|--|\n|1|2|\n\n| `a` | rows\n"
    assert rewritten(text) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.994, "0.99"), (9.994, "9.99"), (9.996, "10.0"), (99.94, "99.9"), (99.96, "100"),
     (1234.5, "1,234")],
)  # fmt: skip
def test_an_amount_has_three_digits_or_more(value, expected):
    assert amount(value) == expected
