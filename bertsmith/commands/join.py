"""`bertsmith join`: two models that read in opposite directions -> one, their states side by side.

    bertsmith pretrain FOLDER --model.direction left_to_right --objectives left_to_right_lm
    bertsmith pretrain FOLDER --model.direction right_to_left --objectives right_to_left_lm
    bertsmith join runs/left runs/right --out out/two-way

With `--model.layer-kind lstm` on both this is ELMo. What comes out is an encoder whose hidden
states are features: it is not trained further to be one.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True, kw_only=True)
class Join:
    """Lays the hidden states of a left-to-right and a right-to-left model side by side, as ELMo.

    Both must have the same sizes and the same vocabulary.
    """

    first: tyro.conf.Positional[str]
    """A model of one direction: a name under models/, or a path (a run: its newest checkpoint)."""
    second: tyro.conf.Positional[str]
    """The model of the other direction."""
    out: Path
    """The directory to write; it must be new or empty."""


def join(options: Join) -> None:
    """Writes the two-way model and says what is next."""
    # It imports torch, which takes seconds: only now, when the options are known to be sound.
    from bertsmith.checkpoints import joined

    loaded = joined.join(options.first, options.second, options.out)
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    config, size = loaded.config, sum(each.numel() for each in loaded.model.parameters())
    print(
        f"wrote {options.out}: {config.num_hidden_layers} layers of 2 x "
        f"{config.hidden_size // 2}, {size:,} parameters; read back equal to the two"
    )
    features = "--approach feature_based --layers weighted-sum-with-embeddings --on-top bilstm"
    model = shlex.quote(str(options.out))
    print(f"next: bertsmith finetune {model} --tagged TRAIN {features}")
