"""Experiments at a scale -> everything that they miss, made in order; then their tables.

What another process holds is left to it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.reproduction.parts import Part, Workshop, make, parts_of
from bertsmith.commands.reproduction.plan import planned
from bertsmith.commands.text_options import TextChoices, VocabularyChoices
from bertsmith.files import InUseError, claimed, write_text
from bertsmith.recipes.experiments.experiment import Experiment, Pretrained, Score, models_of
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.directory import fingerprint
from bertsmith.runs.experiments import pictures, told
from bertsmith.runs.experiments.found import finding, findings
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.finetune_pictures import can_draw
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.progress import duration, say
from bertsmith.train.device import choose_device

_SECONDS_BETWEEN_LOOKS = 5.0


def reproduce_at(scale: Scale, options: Reproduce, console: Console) -> None:
    """Makes what is missing of the experiments, and writes table, CSV and picture of each.

    Ctrl-C keeps all that is finished and raises KeyboardInterrupt.
    """
    assert options.data is not None
    experiments = [EXPERIMENTS[name](scale) for name in dict.fromkeys(options.experiments)]
    sets = ExamSets.read(experiments, options.data)
    device = choose_device(settle_machine(options.device, options.threads, {}))
    for line in planned(experiments, scale, sets, options, device):
        say(console, line)
    if options.plan_only:
        return
    workshop = _opened(options, scale, experiments, sets, device, console)
    _carry_out(parts_of(experiments, workshop.site, sets), workshop, console)
    for experiment in experiments:
        _tell(experiment, workshop, scale, console)


def _opened(
    options: Reproduce,
    scale: Scale,
    experiments: Sequence[Experiment],
    sets: ExamSets,
    device: torch.device,
    console: Console,
) -> Workshop:
    """Makes the vocabularies and corpora that are missing."""
    needed = {
        model.cased
        for experiment in experiments
        for _, _, cell in experiment.cells()
        for model in models_of(cell)
        if isinstance(model, Pretrained)
    }
    corpora = {cased: _corpus(options, scale, cased, console) for cased in sorted(needed)}
    site = Site(
        directory=options.out,
        data=sets.data,
        corpora={cased: fingerprint(path) for cased, path in corpora.items()},
    )
    return Workshop(site=site, sets=sets, corpora=corpora, options=options, device=device)


def _corpus(options: Reproduce, scale: Scale, cased: bool, console: Console) -> Path:
    """One corpus; another process that makes it is waited for."""
    place = options.out / "text" / f"{'cased' if cased else 'uncased'}-{scale.vocab_size}"
    choices = TextChoices(
        vocab_size=scale.vocab_size,
        vocabulary=VocabularyChoices(cased=cased),
        reading=options.reading,
    )
    is_told = False
    while True:
        try:
            with claimed(place):
                return corpus_of(options.text, choices, place, console)
        except InUseError:
            if not is_told:
                say(console, f"another process makes {place}: waiting for it")
            is_told = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _carry_out(parts: Sequence[Part], workshop: Workshop, console: Console) -> None:
    """Makes every part that is not there, in order; what another process holds is left to it."""
    site = workshop.site
    left = [part for part in parts if not part.is_there(site)]
    say(console, f"{len(parts) - len(left)} of {len(parts)} parts are there")
    while left:
        number = len(parts) - len(left) + 1
        if not any(_made(p, workshop, f"[{number}/{len(parts)}]", console) for p in left):
            time.sleep(_SECONDS_BETWEEN_LOOKS)  # other processes hold all that could be made
        left = [part for part in left if not part.is_there(site)]


def _made(part: Part, workshop: Workshop, number: str, console: Console) -> bool:
    """Makes a part, unless it is there, cannot begin yet, or is another process's."""
    if part.is_there(workshop.site) or not part.is_ready(workshop.site):
        return False
    began = time.perf_counter()
    try:
        with claimed(workshop.site.place_of_claim(part.key)):
            say(console, f"{number} {part.title} ...")
            make(part, workshop)
    except InUseError:
        return False
    except KeyboardInterrupt:
        say(console, "stopped; what is finished is kept, and the same command goes on from here")
        raise
    reached = _reached(part, workshop.site)
    say(console, f"{number} {part.title}: {reached}{duration(time.perf_counter() - began)}")
    return True


def _reached(part: Part, site: Site) -> str:
    """The score of a cell, in words."""
    if not isinstance(part.what, Score):
        return ""
    found = finding(part.what, site, {})
    return f"{found.mean:.1f} ({len(found.values)} runs), "


def _tell(experiment: Experiment, workshop: Workshop, scale: Scale, console: Console) -> None:
    """Prints the table, and writes it as Markdown, CSV and a picture."""
    site, sets = workshop.site, workshop.sets
    experiment = replace(experiment, notes=(*experiment.notes, *sets.notes(experiment)))
    found = findings(experiment, site, sets.gaps)
    place = site.directory / f"{experiment.name}-{scale.name}"
    about = [f"At scale {scale.name}: {scale.described()}"]
    write_text(place.with_suffix(".md"), told.markdown(experiment, found, about))
    write_text(place.with_suffix(".csv"), told.as_csv(experiment, scale.name, found))
    files = [".md", ".csv"]
    if can_draw():
        pictures.draw(experiment, found, place.with_suffix(".png"))
        files.append(".png")
    say(console, "")
    say(console, f"{experiment.source}: {experiment.title}")
    for line in (*told.lines(experiment, found), *told.gaps(experiment, found)):
        say(console, line)
    for claim in experiment.claims:
        say(console, told.claim_line(experiment, claim, found))
    for note in experiment.notes:
        say(console, f"note: {note}")
    say(console, f"written: {', '.join(place.name + ending for ending in files)} in {place.parent}")
