"""Two models of one direction each, trained apart -> a two-way encoder, their states side by side.

Of LSTMs this is ELMo; of Transformers it is what the paper sets beside BERT. What is written is
read back and compared before it appears.

Source: Peters et al. 2018, section 3.2; Devlin et al. 2018, section 2.1 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints import store
from bertsmith.checkpoints.sides import SIDES, joined_name
from bertsmith.checkpoints.store import Loaded
from bertsmith.files import atomic_directory
from bertsmith.model.config import BertConfig


def join(first: str | Path, second: str | Path, out: Path) -> Loaded:
    """Writes the two-way model of two others, whichever of them reads from left to right.

    Poolers and heads are left out: each of them reads one side alone. Returns the model as read
    back, its notes saying so. Raises ValueError for an `out` that is there and not empty, and for
    models that do not read in opposite directions, or differ in another field of their configs or
    in their vocabularies.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} exists already and is not empty; choose a new directory")
    left, right = _in_order(store.load(first), store.load(second))
    config, state = _config(left, right), _state(left, right)
    with atomic_directory(out) as temporary:
        store.write(temporary, state, config, left.tokenizer, card=_card(out, left, right))
        back = store.load(temporary)
        read = back.model.state_dict()
        if back.config != config or any(not torch.equal(read[name], state[name]) for name in read):
            raise ValueError("what was written reads back otherwise than the two; it is not kept")
    left_out = [
        f"left out of {each.directory}: {told}"
        for each in (left, right)
        if (told := _left_out(each))
    ]
    notes = dict.fromkeys((*left.notes, *right.notes, *left_out))  # what holds of both, once
    return replace(back, directory=out, notes=tuple(notes))


def _in_order(first: Loaded, second: Loaded) -> list[Loaded]:
    """As `SIDES` has them."""
    found = {loaded.config.direction: loaded for loaded in (first, second)}
    if set(found) != set(SIDES):
        told = (f"{each.directory} is {each.config.direction}" for each in (first, second))
        raise ValueError(
            f"a two-way model joins one that is left_to_right and one that is right_to_left, and "
            f"{' and '.join(told)}"
        )
    return [found[side] for side in SIDES]


def _config(left: Loaded, right: Loaded) -> BertConfig:
    """Twice as wide as either."""
    if faults := list(_differences(left, right)):
        raise ValueError(f"{left.directory} and {right.directory} differ: {'; '.join(faults)}")
    return replace(
        left.config,
        hidden_size=2 * left.config.hidden_size,
        num_attention_heads=2 * left.config.num_attention_heads,
        intermediate_size=2 * left.config.intermediate_size,
        direction="two_way",
    )


def _differences(left: Loaded, right: Loaded) -> Iterator[str]:
    """What must be equal and is not, each in words."""
    for name in (field.name for field in fields(BertConfig) if field.name != "direction"):
        pair = getattr(left.config, name), getattr(right.config, name)
        if pair[0] != pair[1]:
            yield f"{name} is {pair[0]} and {pair[1]}"
    if left.tokenizer.fingerprint != right.tokenizer.fingerprint:
        yield "their vocabularies are not the same"


def _state(left: Loaded, right: Loaded) -> dict[str, Tensor]:
    """Both encoders' parameters under the names of the two-way one."""
    return {
        name: tensor
        for side, loaded in zip(SIDES, (left, right), strict=True)
        for native, tensor in loaded.model.state_dict().items()
        if (name := joined_name(side, native)) is not None
    }


def _left_out(loaded: Loaded) -> str:
    """What of a model is not joined; empty for nothing."""
    parts: list[str] = list(loaded.model.objectives)
    parts += ["the pooler"] if loaded.model.bert.pooler is not None else []
    parts += ["the task head"] if loaded.head is not None else []
    return ", ".join(parts)


def _card(out: Path, left: Loaded, right: Loaded) -> str:
    """README.md: what this is, and what it was made of."""
    kind = "LSTM" if left.config.layer_kind == "lstm" else "Transformer"
    return f"""# {out.resolve().name}

Two {kind} language models, trained apart, their hidden states side by side: the first half of a
token's numbers knows the text before it, the second half the text behind it. Joined by bertsmith.

- from left to right: `{left.directory}`
- from right to left: `{right.directory}`

It is no BERT, and only bertsmith reads it: as features for tags, say, with `bertsmith finetune
DIRECTORY --tagged TRAIN --approach feature_based --layers weighted-sum-with-embeddings --on-top
bilstm`.
"""
