import pytest

from benchmarks.paper_tables import (
    DOCUMENT,
    HEADING,
    draw,
    located,
    rows_of,
    seconds_of,
    section,
    with_section,
)
from bertsmith.recipes.experiments import the_paper
from bertsmith.recipes.experiments.scales import SCALES
from bertsmith.recipes.experiments.tables import EXPERIMENTS


def test_the_document_holds_what_the_rows_say():
    document = DOCUMENT.read_text("utf-8")
    assert document == with_section(document, section("mini", rows_of("mini"))), (
        "the rows have changed: python -m benchmarks.paper_tables"
    )


def test_every_figure_of_the_papers_tables_has_its_row():
    text = section("mini", rows_of("mini"))
    for table in (the_paper.TABLE_1, the_paper.TABLE_2, the_paper.TABLE_3, the_paper.TABLE_4):
        for title, figures in table.items():
            for figure in figures:
                if figure is not None:
                    assert f"| {figure} |" in text, title
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) > 150
    assert "| BERT BASE | average |" in text
    assert "| OpenAI GPT | average | - | 75.1 |" in text
    assert "| Human (expert) | test | - | 85.0 |" in text


@pytest.mark.parametrize("scale", ["tiny", "mini"])
def test_every_committed_line_is_a_cell(scale):
    rows = rows_of(scale)
    assert len(located(scale, rows).elsewhere) == len({row["cell"] for row in rows})
    with pytest.raises(ValueError, match="no cell is called 'table9: x'"):
        located(scale, [{**rows[0], "title": "table9: x"}])


def test_lines_that_were_made_before_are_other_runs_of_the_same_cells():
    counted = {row["cell"]: row["perplexity"] for row in rows_of("mini") if "perplexity" in row}
    before = rows_of("mini-made-before")
    assert len(before) == 7
    assert all(row["perplexity"] > counted[row["cell"]] for row in before)


def test_a_cell_tells_mean_deviation_and_interval_and_how_many_seeds_guess():
    text = section("mini", rows_of("mini"))
    assert "| L1 H256 A4 | perplexity | 63.81 | 5.84 |" in text
    assert "| L4 H256 A4 | MNLI-m | 47.4 +- 0.9 (3 seeds), 95%: 2.3 | 84.4 |" in text
    # By accuracy, which the cell tells, four of five are above one answer to all; by F1 none.
    assert "| L4 H256 A4 | MRPC | 70.0 +- 1.8 (5 seeds, 1 guessing), 95%: 2.2 | 86.7 |" in text
    assert "| BERT BASE | MRPC | 79.0 +- 1.7 (5 seeds, 5 guessing), 95%: 2.1 | 88.9 |" in text
    assert "- Perplexity falls with each larger model: " in text
    assert "perplexity, L2 H256 A1 - L2 H256 A4: +4.3 (as the numbers are" in text  # 60.99 - 56.73


def test_what_a_table_says_of_itself_stands_below_it():
    text = section("mini", rows_of("mini"))
    for name in EXPERIMENTS:
        experiment = EXPERIMENTS[name](SCALES["mini"]())
        below = text.partition(f"### {experiment.source}: {experiment.title}\n")[2].partition(
            "\n### "
        )[0]
        assert all(note in below for note in experiment.notes)


def test_a_document_without_the_heading_is_refused():
    with pytest.raises(ValueError, match="put it where the tables belong"):
        with_section("# Nothing\n", "")
    document = f"a\n{HEADING}\nold\n\n## Next\nb\n"
    assert with_section(document, "new\n") == f"a\n{HEADING}\n\nnew\n\n## Next\nb\n"


def test_the_time_of_an_experiment_is_that_of_its_cells():
    seconds, there, cells = seconds_of("table6", "tiny")
    assert 500 < seconds < 600
    assert 0 < there == cells


def test_figure_5_is_drawn_from_the_rows_and_shown(tmp_path):
    draw("figure5", "mini", tmp_path / "figure5.png")
    drawn = (tmp_path / "figure5.png").read_bytes()
    shown = DOCUMENT.with_name("figure5.png").read_bytes()
    assert drawn[:8] == shown[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(shown) < 150_000
    models = DOCUMENT.with_name("models.md").read_text("utf-8")
    assert "](figure5.png)" in models
    assert "`python -m benchmarks.paper_tables --draw figure5`" in models
