"""The command line of `bertsmith explain`: which words, which model, what is hidden, where it goes.

    bertsmith explain "my dog is cute" "he likes playing"

It looks at no text and at no model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from bertsmith.data.config import Masking
from bertsmith.train.config import PrecisionChoice

_KINDS = (".png", ".svg")
_MOST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Explain:
    """Draws what a BERT does with your own words, as the figures of the paper do.

    Tokens, segments and positions; which tokens are hidden and how, and what the model expects
    there, from both sides and from the left alone; whether B follows A; what may look at what; and
    attention. In the terminal, or with --out as a picture.
    """

    sentences: tyro.conf.Positional[tuple[str, ...]] = ()
    """One sentence, or the two of a pair; `[MASK]` in them is the mask."""
    model: str | None = None
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id; by
    default mini-ko for Hangul, else mini-en."""
    hide: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Hide this word, wherever it stands; once for each word. Nothing is drawn by lot then."""
    seed: int | None = None
    """Chooses the hidden tokens and what becomes of them: a seed always chooses the same; by
    default 0."""
    masking: Masking = field(default_factory=Masking)
    """How many tokens are chosen, and what becomes of them."""
    top_k: int = 5
    """Candidates shown for each hidden token."""
    layer: int | None = None
    """Whose attention is shown, counted from 1; by default the last. A picture shows all, too."""
    head: int | None = None
    """Which head's, counted from 1; by default the mean of all."""
    out: Path | None = None
    """Draw a picture into this .png or .svg file instead."""
    force: bool = False
    """Replace what is at --out."""
    jsonl: bool = False
    """Print one JSON object instead."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: PrecisionChoice = "fp32"
    """fp32, so that every machine draws the same; or bf16, fp16, auto."""

    def __post_init__(self) -> None:
        """Refuses what no model could answer, before any is looked for."""
        if not 1 <= len(self.sentences) <= 2:
            raise ValueError(
                f"explain takes one sentence or the two of a pair, found {len(self.sentences)}: "
                f'quote each, as in bertsmith explain "my dog is cute" "he likes playing"'
            )
        for option, number in (("top-k", self.top_k), ("layer", self.layer), ("head", self.head)):
            if number is not None and number < 1:
                raise ValueError(f"--{option} must be at least 1, found {number}")
        if self.seed is not None and not 0 <= self.seed <= _MOST_SEED:
            raise ValueError(f"--seed must be from 0 to {_MOST_SEED}, found {self.seed}")
        self._require_one_way_of_hiding()
        self._require_drawable()

    def _require_one_way_of_hiding(self) -> None:
        if self.masking.fixed_copies:
            raise ValueError("--masking.fixed-copies says nothing to one example: leave it out")
        is_masked = any("[MASK]" in sentence for sentence in self.sentences)
        if not self.hide and not is_masked:
            return
        chosen = "--hide names" if self.hide else "[MASK] in the sentence marks"
        for option, is_typed in (
            ("--seed", self.seed is not None),
            ("--masking", self.masking != Masking()),
        ):
            if is_typed:
                raise ValueError(
                    f"{option} is for tokens that are chosen by lot, and {chosen} them: leave "
                    f"either out"
                )

    def _require_drawable(self) -> None:
        if self.out is None:
            if self.force:
                raise ValueError("--force replaces what is at --out: name the file with --out")
            return
        if self.jsonl:
            raise ValueError("--out draws a picture and --jsonl prints: leave one out")
        if self.out.suffix.lower() not in _KINDS:
            raise ValueError(f"--out draws a .png or a .svg file, found '{self.out}'")
        if self.out.is_dir():
            raise ValueError(f"{self.out} is a directory: name a file")
        if self.out.exists() and not self.force:
            raise ValueError(f"{self.out} exists: name another file, or replace it with --force")
