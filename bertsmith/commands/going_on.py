"""`--from MODEL` among the options of `pretrain` -> what it decides, or why it cannot stand there.

A model brings its sizes, its vocabulary and a peak rate for its width. Of the model only the config
is read here; its weights and its words are looked at when the corpus is made.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.checkpoints.places import find_model
from bertsmith.checkpoints.store import read_encoder_config
from bertsmith.commands.accepted_options import options_of
from bertsmith.commands.pretrain_options import Pretrain, recipe_for
from bertsmith.commands.text_options import VocabularyChoices
from bertsmith.recipes.pretraining import further, further_rate
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.pretrain_start import require_trainable
from bertsmith.text.new_words import read_words

_RECIPE = further().name


@dataclass(frozen=True, kw_only=True)
class GoingOn:
    """A model that is gone on from, and what it shall learn to write as one entry."""

    name: str
    """As it was typed."""
    place: Path
    """Where its files lie."""
    words: Path | None
    """A file of new words."""

    def to_json(self) -> dict[str, object]:
        """As JSON values, to know it again: of the words what they are, wherever they lie."""
        words = self.words
        return {
            "model": str(self.place),
            "words": None if words is None else hashlib.sha256(words.read_bytes()).hexdigest(),
        }


def require_fitting(options: Pretrain) -> None:
    """Raises ValueError where an option contradicts `--from`, or would need it."""
    if options.from_model is None:
        if options.add_words is not None:
            raise ValueError(
                "--add-words adds to the vocabulary of a model: name the model with --from, or "
                "leave it out, and a vocabulary is learned from the text"
            )
        if options.recipe == _RECIPE:
            raise ValueError(f"the recipe '{_RECIPE}' goes on from a model: name one with --from")
        return
    if recipe_for(options.recipe, options.from_model) != _RECIPE:
        raise ValueError(
            f"the recipe '{options.recipe}' is for a model that begins with drawn weights, and "
            f"states its size: leave --recipe out, and type what else is wanted of it beside --from"
        )
    of_vocabulary = {option.name for option in options_of(VocabularyChoices)}
    decided = {"--size", "--vocab", "--vocab-size", *of_vocabulary}
    told = [name for name in options.typed if name in decided or name.startswith("--model.")]
    has_other = options.size != "auto" or options.text.vocab is not None or options.text.vocab_size
    if told or has_other:
        raise ValueError(
            f"--from {options.from_model} brings its sizes and its vocabulary, and "
            f"{', '.join(told) or 'another size or vocabulary'} would contradict them: leave that "
            f"out, or start a model of its own without --from"
        )
    if options.run.count_embeddings or options.run.tile_positions:
        name = "--count-embeddings" if options.run.count_embeddings else "--tile-positions"
        raise ValueError(
            f"{name} would put others in place of the vectors that {options.from_model} has "
            f"learned: leave it out"
        )


def going_on(options: Pretrain) -> GoingOn | None:
    """The model that is gone on from; None where weights are drawn.

    Raises FileNotFoundError or ValueError for a model or words that cannot be found or read.
    """
    if options.from_model is None:
        return None
    if options.add_words is not None:
        read_words(options.add_words)
    place = find_model(options.from_model).resolve()
    return GoingOn(name=options.from_model, place=place, words=options.add_words)


def run_of_model(run: PretrainRun, model: GoingOn, is_rate_set: bool) -> PretrainRun:
    """The run with the model's sizes and, where none was set, the peak rate for its width.

    Raises ValueError for a model that the run cannot train.
    """
    config = read_encoder_config(model.place)
    require_trainable(config, run, model.name)
    optimizer = run.optimizer
    if not is_rate_set:
        optimizer = replace(optimizer, learning_rate=further_rate(config))
    return replace(run, model=config, optimizer=optimizer)
