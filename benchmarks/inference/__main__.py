"""Texts -> sentence vectors and class logits, beside every known way to run a BERT on a CPU.

    BERTSMITH_DATA=DATA python -m benchmarks.inference --size mini --size base
    python -m benchmarks.inference --size base --device cuda

Tokenisation is included. All systems read the same weights, drawn by a seed: speed needs no
meaning. They answer the same texts in turn (A B C A B C ...), other texts of the same lengths in
every round, so that who makes kernels for every shape has made them when the timed rounds begin;
each in a process of its own, which waits while the others work.
For 1 and for 2 threads: median texts and real tokens a second, the fraction of the best matrix rate
between the rounds, milliseconds for one text alone (median and 90th percentile), in a row and after
pauses, seconds until the first answers, the most memory, and the largest difference from
`transformers` in float32, relative to its largest value. The packages that peers need come with
`pip install 'bertsmith[bench]'`; a peer whose packages are missing is left out, and so is, from
there on, one that fails or takes longer than --limit, which the row names.

On a GPU all cores tokenise, texts that are asked together are 64 times as many, and the peers that
run on CPUs alone stay out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.inference.padded import Place, write_models
from benchmarks.inference.processes import Answered, Order, Running, begin, in_a_process
from benchmarks.inference.report import (
    WARM_UP,
    Measured,
    Row,
    figures_of,
    first_seconds,
    peak_bytes,
    show,
)
from benchmarks.inference.settings import SETTINGS, Setting
from benchmarks.inference.systems import SYSTEMS
from benchmarks.inference.texts import Words, calibrating, drawn_words, real_words
from benchmarks.machine import append_row, device_facts, matrix_rate, require_device
from bertsmith.model.config import SIZES
from bertsmith.train.device import choose_device, choose_precision
from bertsmith.workers import num_cores


def main() -> None:
    """Measures every size with every number of threads, and appends a row for each."""
    options = _options()
    device = choose_device(options.device)
    names = [name for name in options.system or SYSTEMS if _is_here(name, device)]
    by_device = [num_cores()] if device.type == "cuda" else sorted({1, min(2, num_cores())})
    for size in options.size or ["mini", "base"]:
        config = SIZES[size]
        words, tokenizer = (
            real_words(options.data) if options.data else drawn_words(config.vocab_size)
        )
        with tempfile.TemporaryDirectory() as folder:
            write_models(Path(folder), config, tokenizer, calibrating(words))
            for prepare in dict.fromkeys(each for name in names for each in SYSTEMS[name].prepare):
                in_a_process(prepare, Path(folder))
            for threads in options.threads or by_device:
                place = Place(folder=Path(folder), threads=threads, device=device)
                row = measure(size, place, names, words, options)
                show(row)
                append_row("inference", {**row, "is_real_text": options.data is not None})


def measure(
    size: str, place: Place, names: Sequence[str], words: Words, options: argparse.Namespace
) -> Row:
    """One side-by-side run of one size in one place."""
    torch.set_num_threads(place.threads)
    systems = [begin(name, place) for name in names]
    rates: list[float] = []
    left_out: dict[str, str] = {}
    measured: dict[str, Measured] = {}
    for name in options.setting or SETTINGS:
        setting = SETTINGS[name].on(place.device)
        asked = [system for system in systems if system.name not in left_out]
        measured[name], failed = take_turns(asked, setting, words, rates, place.device, options)
        left_out |= failed
    for system in systems:
        system.worker.end()
    return {
        "size": size,
        "threads": place.threads,
        "rounds": options.rounds,
        **device_facts(place.device),
        "precision": choose_precision("auto", place.device),
        "matrix_flops_per_second": max(rates),
        "versions": _versions(names),
        "load_seconds": {system.name: system.load_seconds for system in systems},
        "first_seconds": first_seconds(list(measured.values())),
        "peak_bytes": peak_bytes(list(measured.values())),
        "settings": {
            name: figures_of(one, SIZES[size], max(rates))
            for name, one in measured.items()
            if one.answered
        },
        "left_out": left_out,
    }


def take_turns(
    systems: Sequence[Running],
    setting: Setting,
    words: Words,
    rates: list[float],
    device: torch.device,
    options: argparse.Namespace,
) -> tuple[Measured, dict[str, str]]:
    """Asks every system that answers such questions, round by round; adds the matrix rates.

    And why systems are left out of it, which failed or met the limit.
    """
    asked = [system for system in systems if setting.question in SYSTEMS[system.name].questions]
    answered: dict[str, list[Answered]] = {system.name: [] for system in asked}
    lengths, left_out = setting.lengths(), {}
    for number in range(options.rounds + WARM_UP):
        rates.append(matrix_rate(rounds=3, device=device))
        order = Order(
            question=setting.question,
            texts=words.texts(lengths, number),
            one_by_one=setting.one_by_one,
            pause=setting.pause,
        )
        for system in asked:
            if system.name not in answered:
                continue
            try:
                answered[system.name].append(system.ask(order, options.limit))
            except RuntimeError as error:
                left_out[system.name] = str(error)
                del answered[system.name]
    return Measured(setting=setting, lengths=lengths, answered=answered), left_out


def _is_here(name: str, device: torch.device) -> bool:
    """False, and says so, when the system does not run on the device or lacks its packages."""
    if device.type not in SYSTEMS[name].devices:
        print(f"left out: {name}, which does not run on {device.type}")
        return False
    if not SYSTEMS[name].works():
        print(f"left out: {name}, which this processor does not multiply")
        return False
    missing = SYSTEMS[name].missing
    if missing:
        print(f"left out: {name}, which needs {', '.join(missing)}; the extra is bench")
    return not missing


def _versions(names: Sequence[str]) -> dict[str, str]:
    packages = sorted({package for name in names for package in SYSTEMS[name].needs})
    return {package: importlib.metadata.version(package) for package in packages}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("BERTSMITH_DATA")
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--setting", action="append", choices=list(SETTINGS))
    parser.add_argument("--threads", action="append", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=data, help="default: BERTSMITH_DATA")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--limit", type=float, help="seconds that a system may take for an answer")
    options = parser.parse_args()
    require_device(parser, options.device)
    return options


if __name__ == "__main__":
    main()
