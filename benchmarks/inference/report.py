"""What every system took -> a row of results, and the row as tables.

It does not know how it was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.inference.padded import Rows
from benchmarks.inference.processes import Answered
from benchmarks.inference.settings import Setting
from bertsmith.model.config import BertConfig

Row = dict[str, Any]

WARM_UP = 2
"""Rounds that do not count: compilation, kernels for new shapes, first pages."""
_EXACT = "transformers default"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All rounds of one setting."""

    setting: Setting
    lengths: Sequence[int]
    """Tokens of the texts of every round."""
    answered: Mapping[str, Sequence[Answered]]
    """Of every system: what it said in every round."""


def figures_of(measured: Measured, config: BertConfig, ceiling: float) -> Row:
    """The figures of one setting, system by system; `ceiling` is the matrix rate."""
    if measured.setting.one_by_one:
        return _latencies(measured)
    seconds = {
        system: [one.seconds[0] for one in answered[WARM_UP:]]
        for system, answered in measured.answered.items()
    }
    num_texts, tokens = measured.setting.num_texts, sum(measured.lengths)
    figures: Row = {"num_texts": num_texts, "tokens": tokens, "seconds": seconds}
    for name, amount in (
        ("texts_per_second", num_texts),
        ("tokens_per_second", tokens),
        ("fraction_of_matrix_rate", flops(config, measured.lengths) / ceiling),
    ):
        figures[name] = {
            system: amount / statistics.median(each) for system, each in seconds.items()
        }
    figures["difference"] = differences(
        {system: answered[-1].rows for system, answered in measured.answered.items()}
    )
    return figures


def _latencies(measured: Measured) -> Row:
    """Milliseconds of all calls, of all rounds together."""
    calls = {
        system: [1000 * second for one in answered[WARM_UP:] for second in one.seconds]
        for system, answered in measured.answered.items()
    }
    return {
        "tokens": measured.setting.length,
        "median_ms": {system: statistics.median(times) for system, times in calls.items()},
        "p90_ms": {system: float(np.percentile(times, 90)) for system, times in calls.items()},
    }


def differences(rows: Mapping[str, Rows]) -> dict[str, float]:
    """The largest difference from `transformers` in float32 (without it: from the first system).

    Relative to the largest value.
    """
    exact = rows[_EXACT if _EXACT in rows else next(iter(rows))]
    largest = float(np.abs(exact).max())
    return {name: float(np.abs(each - exact).max()) / largest for name, each in rows.items()}


def first_seconds(measured: Sequence[Measured]) -> dict[str, float]:
    """What each system's very first call took."""
    first: dict[str, float] = {}
    for one in measured:
        for system, answered in one.answered.items():
            first.setdefault(system, answered[0].seconds[0])
    return first


def peak_bytes(measured: Sequence[Measured]) -> dict[str, int]:
    """The most memory that each system ever held."""
    return {
        system: answered[-1].peak_bytes
        for one in measured
        for system, answered in one.answered.items()
    }


def flops(config: BertConfig, lengths: Sequence[int]) -> float:
    """Operations of the encoder's matrix multiplications on texts of these lengths.

    All of them, for every system and question: also what a pooled answer spares in the last layer,
    and what bertsmith looks up in the first.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    a_token = 8 * hidden**2 + 4 * hidden * inner
    squares = sum(length**2 for length in lengths)
    return config.num_hidden_layers * (a_token * sum(lengths) + 4 * hidden * squares)


def show(row: Row) -> None:
    """Prints a row as a table for every setting."""
    print(
        f"\n{row['size']}, threads: {row['threads']}, {row['precision']}, matrix rate "
        f"{row['matrix_flops_per_second'] / 1e12:.2f} TFLOP/s"
    )
    for name, first in row["first_seconds"].items():
        print(
            f"{name:22s} ready after {row['load_seconds'][name]:5.1f} s, first call "
            f"{first:5.1f} s, {row['peak_bytes'][name] / 1e9:5.1f} GB"
        )
    for name, reason in row["left_out"].items():
        print(f"left out: {name}: {reason}")
    for setting, figures in row["settings"].items():
        print(setting)
        if "median_ms" in figures:
            _show_latencies(figures)
        else:
            _show_rates(figures)


def _show_rates(figures: Row) -> None:
    rates = figures["texts_per_second"]
    best = best_of_ours(rates)
    for name, rate in rates.items():
        print(
            f"  {name:22s} {rate:8.1f} texts/s {figures['tokens_per_second'][name]:9,.0f} tokens/s"
            f" {figures['fraction_of_matrix_rate'][name]:6.1%} {best / rate:6.2f}"
            f"  difference {figures['difference'][name]:.1e}"
        )


def _show_latencies(figures: Row) -> None:
    for name, median in figures["median_ms"].items():
        print(f"  {name:22s} {median:8.2f} ms {figures['p90_ms'][name]:8.2f} ms")


def best_of_ours(rates: Mapping[str, float]) -> float:
    """Our fastest form; without any, the fastest of all."""
    ours = [rate for name, rate in rates.items() if name.startswith("bertsmith")]
    return max(ours or rates.values())
