"""An explanation -> the words beside its drawings, in the terminal and in the picture.

It draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertsmith.model.config import Direction

if TYPE_CHECKING:
    from bertsmith.tasks.explanation import Explanation, Guess
    from bertsmith.tasks.fill_mask import Candidate
    from bertsmith.tasks.hidden_places import Fate, Place

FATES: dict[Fate, str] = {"mask": "masked", "random": "random", "kept": "kept"}
"""One word for what became of a token."""
READS: dict[Direction, str] = {
    "bidirectional": "from both sides",
    "left_to_right": "from left to right",
    "right_to_left": "from right to left",
    "two_way": "from left to right, and by itself from right to left",
}
"""How a model reads."""
_KNOWN: dict[Direction, str] = {
    "bidirectional": "BERT: both sides",
    "left_to_right": "GPT: left to right",
    "right_to_left": "ELMo: right to left",
}
"""Whose way of reading it is, in Figure 3."""
_OF_ELMO = "ELMo: left to right"
_SIDE: dict[Direction, str] = {
    "bidirectional": "those on both sides",
    "left_to_right": "those before it",
    "right_to_left": "those behind it",
    "two_way": "those before it, and by itself from those behind it",
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which model was asked, by its name as typed, and which of its attention maps is shown."""

    model: str
    layer: int
    """Counted from 1."""
    head: int | None
    """Counted from 1; None for the mean of all."""


def heading(found: Explanation, chosen: Chosen) -> str:
    """What the model is."""
    config = found.config
    is_lstm = config.layer_kind == "lstm"
    layers = "LSTM layers" if is_lstm else f"layers of {config.num_attention_heads} heads"
    reads = READS[config.direction]
    return f"{chosen.model}: {config.num_hidden_layers} {layers}, reads {reads}"


def input_title(found: Explanation) -> str:
    """Of Figure 2's rows."""
    limit = found.config.max_position_embeddings
    return f"What it reads (Figure 2): {len(found.seen):,} tokens, at most {limit:,}"


INPUT_LINE = "The input is the sum of a token, a segment and a position embedding."


def shows_places(found: Explanation) -> bool:
    """Whether anything is hidden or foretold: not by a model of one side without the head."""
    return found.config.direction == "bidirectional" or found.guesses is not None


def hidden_title(found: Explanation) -> str:
    """Of the masks, or of the places that a model of one side is asked for."""
    hides = found.config.direction == "bidirectional"
    return "What is hidden from it (masked LM, Figure 1)" if hides else "What it foretells"


def hidden_line(found: Explanation) -> str:
    """How the places were chosen, and what becomes of them."""
    hidden = found.hidden
    count = f"{len(hidden.places):,} of {len(found.seen):,} tokens"
    direction = found.config.direction
    if direction != "bidirectional":
        how = "chosen by you" if hidden.drawn_by is None else f"by seed {hidden.drawn_by.seed}"
        return (
            f"Reading {READS[direction]}, it needs no masks: it foretells each token from "
            f"{_SIDE[direction]}. Asked here for {count}, {how}."
        )
    if hidden.drawn_by is None:
        return f"{count}, chosen by you; each is [MASK]."
    rule = hidden.drawn_by.masking
    stay = abs(1.0 - rule.mask_share - rule.random_share)
    unit = " in whole words" if rule.whole_word else ""
    is_rounded = len(hidden.places) == round(rule.rate * len(found.seen))
    drawn = (
        f"{count} ({_share(rule.rate)}{', rounded' if is_rounded else ' asked for'}){unit}, drawn "
        f"by seed {hidden.drawn_by.seed}. Of those chosen {_share(rule.mask_share)} become [MASK], "
        f"{_share(rule.random_share)} a random token, {_share(stay)} stay; all are predicted."
    )
    if hidden.places:
        return drawn
    return f"{drawn} No whole word is short enough here: raise --masking.rate."


def place_title(found: Explanation, place: Place) -> str:
    """A place, what stands there and what the model reads."""
    token = found.hidden.question.tokens[place.row]
    if found.config.direction != "bidirectional":
        return f"{place.row} {token}"
    if place.token_id is None:
        return f"{place.row} {token}, as you wrote it"
    return f"{place.row} {token} → {found.seen[place.row]} ({FATES[place.fate]})"


def shown(guess: Guess) -> tuple[Candidate, ...]:
    """The candidates, and behind them what stands there if it is none of them."""
    right = guess.right
    if right is None or right.token_id in {each.token_id for each in guess.candidates}:
        return guess.candidates
    return (*guess.candidates, right)


def rank_of(guess: Guess) -> str:
    """Where the right token comes among all; nothing where none is likelier or it is unknown."""
    return "" if guess.rank is None or guess.rank == 1 else f"no. {guess.rank:,}"


NEXT_TITLE = "Does B follow A? (next sentence prediction, Figure 1)"
NEXT_LINE = "Asked of the text as you wrote it."
SIGHT_TITLE = "What each token may look at (BERT and OpenAI GPT in Figure 3)"
ONE_SIDED_TITLE = "From both sides, and from the left alone"
NOTHING_BEHIND = "Nothing but [SEP] stands behind it: both are the same."


def one_sided_line(found: Explanation) -> str:
    """What is read in both."""
    others = ", the others hidden as above" if len(found.hidden.places) > 1 else ""
    return (
        f"The same model with the place as [MASK]{others}: once with all of the text, once with "
        f"the text cut off behind it. A left-to-right model reads no further either; but the [SEP] "
        f"that stands there tells this one that the text ends."
    )


def shown_directions(found: Explanation) -> list[Direction]:
    """The ways of reading that are drawn: BERT's, GPT's, and the model's own."""
    shown: list[Direction] = ["bidirectional", "left_to_right"]
    return shown if found.config.direction in shown else [*shown, "right_to_left"]


def sight_line(found: Explanation) -> str:
    """How the maps are read."""
    line = "A row is a token that looks, a column one that it may look at."
    if "right_to_left" in shown_directions(found):
        line += " ELMo joins a model of each direction."
    if found.config.layer_kind == "lstm":
        line += " An LSTM looks at none of them: it carries on what it has read."
    return line


def known_way(found: Explanation, direction: Direction) -> str:
    """Whose way of reading it is, in Figure 3."""
    is_elmos = direction == "left_to_right" and found.config.layer_kind == "lstm"
    return _OF_ELMO if is_elmos else _KNOWN[direction]


def whose_sight(found: Explanation, direction: Direction) -> str:
    """Whether a way of reading is this model's; nothing where it is not."""
    own = found.config.direction
    if own == "two_way" and direction != "bidirectional":
        return "half of this model"
    return "this model" if direction == own else ""


def attention_title(found: Explanation, chosen: Chosen) -> str:
    """Which map is shown."""
    num_heads = found.config.num_attention_heads
    head = f"mean of {num_heads} heads"
    if chosen.head is not None:
        head = f"head {chosen.head} of {num_heads}"
    return f"Attention: layer {chosen.layer} of {found.config.num_hidden_layers}, {head}"


ATTENTION_LINE = (
    "While it reads the text as you wrote it, a row shares 1 among the tokens that it looks at, "
    "the columns."
)


def percent(probability: float) -> str:
    """A probability as a person reads it."""
    if probability < 0.00001:
        return "<0.001%"
    return f"{probability:.1%}" if probability >= 0.001 else f"{probability:.3%}"


def _share(share: float) -> str:
    """A share that somebody chose, in three digits at most."""
    return f"{100 * share:.3g}%"
