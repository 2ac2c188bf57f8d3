"""Experiments at a scale -> everything that their cells miss, made in order; then their tables.

What another process holds is left to it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.corpora import (
    SECONDS_BETWEEN_LOOKS,
    cases_of,
    corpora_there,
    made_corpus,
    require_readable,
)
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.reproduction.making import Workshop, make
from bertsmith.commands.reproduction.parts import Part, left_of, parts_of
from bertsmith.commands.reproduction.plan import planned
from bertsmith.corpus.store import Corpus
from bertsmith.files import InUseError, claimed, write_text
from bertsmith.reading.counted import counted
from bertsmith.recipes.experiments.experiment import Experiment, Pretrained, Score, models_of
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.directory import fingerprint
from bertsmith.runs.experiments import pictures, told
from bertsmith.runs.experiments.elsewhere import (
    FOUND,
    IS_ELSEWHERE,
    HandedOn,
    add,
    read_found,
)
from bertsmith.runs.experiments.found import finding, findings
from bertsmith.runs.experiments.handing_on import write_found
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import reason_lost
from bertsmith.runs.experiments.random_pairs import told_random_pairs
from bertsmith.runs.finetune_pictures import can_draw
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.progress import duration, say
from bertsmith.train.device import choose_device

_SECONDS_BETWEEN_TRIES = 0.1
"""To write a file that another process writes."""


def reproduce_at(scale: Scale, options: Reproduce, console: Console) -> None:
    """Makes what is missing of the experiments, and writes table, CSV and picture of each.

    A stop (KeyboardInterrupt) and a failure keep all that is finished, and tell it first.
    """
    assert options.data is not None
    require_readable(options)
    elsewhere = _elsewhere(options)
    experiments = [EXPERIMENTS[name](scale) for name in dict.fromkeys(options.experiments)]
    sets = ExamSets.read(experiments, options.data)
    needed = cases_of(experiments, sets, options)
    _require_cuts(experiments, options)
    device = choose_device(settle_machine(options.device, options.threads, {}))
    before = corpora_there(needed, scale, options)
    begun = None if before is None else _site(before, sets, elsewhere, options)
    for line in planned(experiments, scale, sets, options, device, begun):
        say(console, line)
    if options.plan_only:
        return
    corpora = {cased: made_corpus(cased, scale, options, console) for cased in needed}
    site = _site(corpora, sets, elsewhere, options)
    workshop = Workshop(site=site, sets=sets, corpora=corpora, options=options, device=device)
    try:
        _carry_out(parts_of(experiments, site, sets), workshop, console)
    except BaseException as stop:
        for experiment in experiments:
            try:
                _tell(experiment, workshop, scale, console)
            except (OSError, ValueError) as error:  # what stopped it is what is raised
                stop.add_note(f"{experiment.name} could not be told: {error}")
        if isinstance(stop, KeyboardInterrupt):
            kept = "what is finished is kept, and the same command goes on from here"
            say(console, f"stopped; {kept}")
        raise
    for experiment in experiments:
        _tell(experiment, workshop, scale, console)


def _require_cuts(experiments: Sequence[Experiment], options: Reproduce) -> None:
    """Raises ValueError where a step of pre-training is too small for its micro-batches."""
    cells = (cell for experiment in experiments for _, _, cell in experiment.cells())
    models = (model for cell in cells for model in models_of(cell))
    sizes = (p.batch_size for m in models if isinstance(m, Pretrained) for p in m.run.phases)
    smallest = min(sizes, default=options.accumulation)
    if options.accumulation > smallest:
        raise ValueError(
            f"a step of {smallest} sequences cannot be cut into {options.accumulation} "
            f"micro-batches: lower --accumulation to {smallest}"
        )


def _elsewhere(options: Reproduce) -> dict[str, HandedOn]:
    """What other machines have found, named now or before."""
    own = options.out / FOUND
    before = read_found([own]) if own.is_file() else {}
    found = {name: each for name, each in before.items() if IS_ELSEWHERE in each.line}
    for each in read_found(options.found).values():
        add(found, each)
    return found


def _site(
    corpora: Mapping[bool, Path],
    sets: ExamSets,
    elsewhere: Mapping[str, HandedOn],
    options: Reproduce,
) -> Site:
    fingerprints = {cased: fingerprint(path) for cased, path in corpora.items()}
    return Site(directory=options.out, data=sets.data, corpora=fingerprints, elsewhere=elsewhere)


def _carry_out(parts: Sequence[Part], workshop: Workshop, console: Console) -> None:
    """Makes every part that is missing, in order; what another process holds is left to it."""
    site = workshop.site
    left = left_of(parts, site)
    absent = sum(not part.is_there(site) for part in parts)
    idle = f"; not needed any more: {absent - len(left)}" if absent > len(left) else ""
    say(console, f"{len(parts) - absent} of {len(parts)} parts are there{idle}")
    _hand_on(parts, workshop)
    is_waiting = False
    while left:
        number = len(parts) - len(left) + 1
        if any(_made(p, workshop, f"[{number}/{len(parts)}]", console) for p in left):
            is_waiting = False
            _hand_on(parts, workshop)
        else:
            if not is_waiting:
                say(console, f"[{number}/{len(parts)}] other processes are at it: waiting")
            is_waiting = True
            time.sleep(SECONDS_BETWEEN_LOOKS)
        left = left_of(parts, site)


def _hand_on(parts: Sequence[Part], workshop: Workshop) -> None:
    """Writes what is found for other machines; waits while another process does."""
    site = workshop.site
    cells = {part.title: part.cell for part in parts if part.cell}
    while True:
        with contextlib.suppress(InUseError):
            write_found(site.directory / FOUND, cells, site, workshop.sets.about)
            return
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _made(part: Part, workshop: Workshop, number: str, console: Console) -> bool:
    """Makes a part, unless it is there, cannot begin yet, or is another process's."""
    site, place = workshop.site, workshop.site.of(part.what)
    if part.is_there(site) or not part.is_ready(site):
        return False
    began = time.perf_counter()
    try:
        with claimed(site.place_of_claim(place)):
            if part.is_there(site):  # another process has just finished it
                return True
            _require_free(place)
            say(console, f"{number} {part.title} ...")
            make(part.what, workshop)
    except InUseError:
        return False
    if not part.is_there(site):
        raise ValueError(
            f"{place} holds a finished run, and not all that is wanted of it: move it away, and "
            f"it is made anew"
        )
    took = duration(time.perf_counter() - began)
    say(console, f"{number} {part.title}: {_reached(part, site)}, {took}")
    return True


def _require_free(place: Path) -> None:
    """Raises InUseError where another command, a pretrain perhaps, is at work in the directory."""
    if place.is_dir():
        with claimed(place):
            pass


def _with_random_pairs(experiment: Experiment, workshop: Workshop, scale: Scale) -> Experiment:
    """The same, saying of claims that depend on it how many of the pairs are random."""
    if False not in workshop.corpora or not any(each.is_of_pairs for each in experiment.claims):
        return experiment
    told = told_random_pairs(scale.base, Corpus.open(workshop.corpora[False]))
    claims = (replace(c, remark=told) if c.is_of_pairs else c for c in experiment.claims)
    return replace(experiment, claims=tuple(claims), notes=(*experiment.notes, told))


def _reached(part: Part, site: Site) -> str:
    """What has come of it, in words."""
    if not isinstance(part.what, Score):
        return reason_lost(part.what, site) or "done"
    found = finding(replace(part.what, measured_on="", taken="mean"), site, {})
    return found.gap or f"{found.mean:.1f} ({len(found.values)} of {found.num_runs} runs)"


def _tell(experiment: Experiment, workshop: Workshop, scale: Scale, console: Console) -> None:
    """Prints the table, and writes it as Markdown, CSV and a picture."""
    site, sets = workshop.site, workshop.sets
    experiment = _with_random_pairs(experiment, workshop, scale)
    experiment = replace(experiment, notes=(*experiment.notes, *sets.notes(experiment)))
    found = findings(experiment, site, sets.gaps, sets.reached_by_guessing)
    if count := sum(each.is_elsewhere for each in found.values()):
        note = f"{counted(count, 'cell')} told by {FOUND}, where runs on other machines are."
        experiment = replace(experiment, notes=(*experiment.notes, note))
    place = site.directory / f"{experiment.name}-{scale.name}"
    about = [f"At scale {scale.name}: {scale.described()}"]
    write_text(place.with_suffix(".md"), told.markdown(experiment, found, about))
    write_text(place.with_suffix(".csv"), told.as_csv(experiment, scale.name, found))
    files = [".md", ".csv"]
    if can_draw() and any(each.values for each in found.values()):
        pictures.draw(experiment, found, place.with_suffix(".png"))
        files.append(".png")
    say(console, "")
    say(console, f"{experiment.source}: {experiment.title}")
    room = console.width if console.is_terminal else sys.maxsize
    for line in (*told.lines(experiment, found, room), *told.gaps(found), *told.failures(found)):
        say(console, line)
    for claim in experiment.claims:
        say(console, told.claim_line(experiment, claim, found))
    for note in (told.SPREAD, *experiment.notes):
        say(console, f"note: {note}")
    say(console, f"written: {', '.join(place.name + ending for ending in files)} in {place.parent}")
