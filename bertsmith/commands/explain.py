"""`bertsmith explain`: a person's own words -> the figures of the paper, drawn of them.

    bertsmith explain "my dog is cute" "he likes playing"
    bertsmith explain "She opened the door and walked into the room." --hide door --out door.svg
    bertsmith explain "피곤해 보이네. [MASK] 늦게 잤니?" --model mini-ko

What is drawn is made by `tasks.explanation`; how it looks stands in `explanation`.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bertsmith.checkpoints.project_models import named_places
from bertsmith.commands.explain_options import Explain
from bertsmith.commands.explanation import terminal
from bertsmith.commands.explanation.words import Chosen
from bertsmith.commands.json_lines import print_json
from bertsmith.commands.paths import require_destination
from bertsmith.commands.typed import refuse_files
from bertsmith.text.hangul import warn_about_hangul
from bertsmith.text.scripts import main_script

if TYPE_CHECKING:
    from bertsmith.tasks.explanation import Explanation, Guess

_KOREAN, _ENGLISH = "mini-ko", "mini-en"


def explain(options: Explain) -> None:
    """Draws it in the terminal, or into a file; what is left out is told on standard error.

    Raises ValueError or FileNotFoundError for sentences that the model cannot read, a model that is
    not there, and a layer or a head that it has not.
    """
    refuse_files(options.sentences, lambda name: "explain takes one sentence, or the two of a pair")
    if options.out is not None:
        require_destination(options.out.parent, (), "the picture's")
    model = options.model or _model_for(options.sentences)
    found = _explained(options, model)
    layer = found.config.num_hidden_layers if options.layer is None else options.layer
    chosen = Chosen(model=model, layer=layer, head=options.head)
    _require_map(options, found, layer)
    for line in _notes(found):
        print(f"note: {line}", file=sys.stderr)
    if options.jsonl:
        print_json(as_json(found, chosen, options.sentences))
    elif options.out is not None:
        # Matplotlib takes a second to import: only now.
        from bertsmith.commands.explanation.picture import draw

        for line in draw(found, chosen, options.out):
            print(f"note: {line}", file=sys.stderr)
        print(f"wrote {options.out}")
    else:
        terminal.show(found, chosen, Console())


def as_json(found: Explanation, chosen: Chosen, sentences: tuple[str, ...]) -> dict[str, object]:
    """All that is drawn, as plain values; of attention the chosen map."""
    hidden, question, inside = found.hidden, found.hidden.question, found.inside
    guesses = found.guesses or [None] * len(hidden.places)
    sides = found.one_sided or [None] * len(hidden.places)
    drawn = hidden.drawn_by
    return {
        "sentences": sentences,
        "model": chosen.model,
        "direction": found.config.direction,
        "tokens": question.tokens,
        "token_ids": question.item.token_ids.tolist(),
        "segments": question.item.segment_ids.tolist(),
        "positions": list(range(len(question.tokens))),
        "spans": question.spans.tolist(),
        "seed": None if drawn is None else drawn.seed,
        "masking": None if drawn is None else asdict(drawn.masking),
        "seen": found.seen if found.config.direction == "bidirectional" else None,
        "places": [
            {
                "position": place.row,
                "token": question.tokens[place.row],
                "fate": place.fate if found.config.direction == "bidirectional" else None,
                "guess": _guess_as_json(guess),
                "both_sides": None if each is None else _guess_as_json(each.both),
                "left_alone": None if each is None else _guess_as_json(each.left),
            }
            for place, guess, each in zip(hidden.places, guesses, sides, strict=True)
        ],
        "follows": found.follows,
        "layer": chosen.layer if inside else None,
        "head": chosen.head,
        "attention": inside.shares(chosen.layer, chosen.head).tolist() if inside else None,
        "left_out": found.left_out,
    }


def _guess_as_json(guess: Guess | None) -> dict[str, object] | None:
    return None if guess is None else asdict(guess)


def _explained(options: Explain, model: str) -> Explanation:
    # Torch takes seconds to import: only now.
    from bertsmith.inference import Predictor
    from bertsmith.tasks.hidden_places import Hiding
    from bertsmith.train.device import choose_device

    device = choose_device(options.device)
    predictor = Predictor.load(model, device=device, precision=options.precision)
    predictor.tally.look_at(options.sentences)
    broken = predictor.tally.decomposed("that were read") or warn_about_hangul(
        predictor.tokenizer.config, options.sentences
    )
    for note in (*predictor.notes, *([broken] if broken else [])):
        print(f"note: {note}", file=sys.stderr)
    hiding = Hiding(masking=options.masking, seed=options.seed or 0, words=options.hide)
    first, second = (*options.sentences, None)[:2]
    assert first is not None
    return predictor.explain(first, second, hiding, top_k=options.top_k)


def _require_map(options: Explain, found: Explanation, layer: int) -> None:
    """Refuses a layer or a head that the model has not, before anything is drawn."""
    if found.inside is not None:
        found.inside.shares(layer, options.head)
        return
    for option, number in (("--layer", options.layer), ("--head", options.head)):
        if number is not None:
            raise ValueError(
                f"{option} chooses a map of attention, and a model of the kind "
                f"{found.config.told_kind} has none: leave it out"
            )


def _notes(found: Explanation) -> list[str]:
    notes = [*found.left_out]
    if unknown := found.hidden.num_unknown:
        notes.append(f"tokens that are [UNK] to this model: {unknown:,}")
    return notes


def _model_for(sentences: tuple[str, ...]) -> str:
    """The project's own model for their script. Raises ValueError where it is not there."""
    name = _KOREAN if main_script(sentences) == "Hangul" else _ENGLISH
    if not any((Path(place) / "config.json").is_file() for place in named_places(name)):
        raise ValueError(
            f"name a model with --model: {name}, which stands in where none is named, comes with "
            f"a clone of the project only"
        )
    return name
