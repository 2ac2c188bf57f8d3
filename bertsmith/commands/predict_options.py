"""The command line of `bertsmith predict`: a dataclass for each question; and what is refused.

Each field is an option; those of a fine-tuned model stand in `predict_task_options`. It looks at no
text and at no model.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import tyro

from bertsmith.commands.predict_task_options import AskTask
from bertsmith.commands.typed import typed_options
from bertsmith.model.sentence import Pooling
from bertsmith.tasks.generation import refusal
from bertsmith.train.config import AnswerPrecision

_NEAR = 0.75
"""How like the name of a question a first word must be to be taken for it, misspelt."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Which model answers, how it computes, and the files that questions come from."""

    model: str
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    file: tuple[Path, ...] = ()
    """Files of questions, one a line, compressed or not; `-` is standard input."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: AnswerPrecision = "auto"
    """bf16, fp16, fp32, int8 (on a CPU, faster and a little less exact), or auto: bf16 or fp16
    where the hardware multiplies it faster."""


@dataclass(frozen=True, kw_only=True)
class FillMask:
    """The likeliest words at every `[MASK]` of a text.

    Texts come as arguments, from files with one text a line, or through a pipe.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts with one or more `[MASK]`."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    top_k: int = 5
    """Candidates shown for each mask."""
    targets: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Judge only this word, which must be one token of the vocabulary; once for each word."""
    jsonl: bool = False
    """One JSON object a text instead of a table."""

    def __post_init__(self) -> None:
        """Refuses to show nothing."""
        _require_positive("top-k", self.top_k)


@dataclass(frozen=True, kw_only=True)
class NextSentence:
    """The probability that one text follows another.

    A pair comes as two arguments, from files with two texts a line and a tab between them, or
    through a pipe.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """The first and the second text."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    jsonl: bool = False
    """One JSON object a pair instead of a line."""


@dataclass(frozen=True, kw_only=True)
class Embed:
    """A vector for each text, one JSON object a line.

    A sentence-transformers model pools as it was trained to; any other by the mean of all tokens.
    `bertsmith extract` writes vectors of whole files, of any layer.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    pooling: Pooling | None = None
    """What is made of all tokens' states: cls (the first), mean, max, mean_sqrt_len_tokens,
    weightedmean or lasttoken; by default the model's own way, with its dense layer."""
    is_normalized: bool | None = None
    """Bring vectors to length 1; by default as the model was trained."""


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """How alike two texts are: the cosine of their vectors.

    A pair comes as two arguments, from files with two texts a line and a tab between them, or
    through a pipe.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """The first and the second text."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    pooling: Pooling | None = None
    """What is made of all tokens' states: cls (the first), mean, max, mean_sqrt_len_tokens,
    weightedmean or lasttoken; by default the model's own way, with its dense layer."""
    jsonl: bool = False
    """One JSON object a pair instead of a line."""


@dataclass(frozen=True, kw_only=True)
class PseudoPerplexity:
    """How well the model foretells the tokens of a text; 1 is perfect.

    Each token is masked in turn (Salazar et al. 2020); a left-to-right model gives its ordinary
    perplexity. The texts together are summed up on standard error.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts; long ones are read in windows, and nothing is cut."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    tokens: bool = False
    """Show every token with its probability."""
    jsonl: bool = False
    """One JSON object a text instead of a line."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Which tokens look at which: the strongest links of one layer, or everything in a file.

    A question is one argument or two (a pair), or a line with a text or two texts and a tab.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """One text, or the two of a pair."""
    asking: Annotated[Asking, tyro.conf.arg(name="")]
    """Which model answers, and on what."""
    layer: int | None = None
    """Which layer, counted from 1; by default the last."""
    head: int | None = None
    """Which head, counted from 1; by default the mean of all heads."""
    top_k: int = 10
    """Links shown."""
    without_special: bool = False
    """Leave out links from and to `[CLS]` and `[SEP]`, which are often the strongest."""
    special_tokens_in_text: bool = False
    """Take `[MASK]` in a text for the mask, not for characters."""
    out: Path | None = None
    """Write all attention and hidden states of one text into this .npz file instead."""
    force: bool = False
    """Replace what is at --out."""
    jsonl: bool = False
    """One JSON object a text instead of a table."""

    def __post_init__(self) -> None:
        """Refuses what no model could answer."""
        _require_positive("top-k", self.top_k)
        _require_positive("layer", 1 if self.layer is None else self.layer)
        _require_positive("head", 1 if self.head is None else self.head)
        if self.out is not None and self.out.suffix != ".npz":
            raise ValueError(f"--out writes a .npz file, found '{self.out}'")
        if self.out is not None and (idle := self._for_the_terminal()):
            raise ValueError(
                f"{' and '.join(idle)} choose what is printed, and --out writes everything into "
                f"{self.out} instead: leave either out"
            )

    def _for_the_terminal(self) -> list[str]:
        """The options that were given and say nothing to a file."""
        given = {
            "--layer": self.layer is not None,
            "--head": self.head is not None,
            "--top-k": self.top_k != type(self).top_k,
            "--without-special": self.without_special,
            "--jsonl": self.jsonl,
        }
        return [option for option, is_given in given.items() if is_given]


Question = FillMask | NextSentence | Embed | Similarity | PseudoPerplexity | Attention | AskTask
Predict = (
    Annotated[AskTask, tyro.conf.subcommand("task")]
    | Annotated[FillMask, tyro.conf.subcommand("fill-mask")]
    | Annotated[NextSentence, tyro.conf.subcommand("next-sentence")]
    | Annotated[Embed, tyro.conf.subcommand("embed")]
    | Annotated[Similarity, tyro.conf.subcommand("similarity")]
    | Annotated[PseudoPerplexity, tyro.conf.subcommand("pseudo-perplexity")]
    | Annotated[Attention, tyro.conf.subcommand("attention")]
)
QUESTIONS: tuple[str, ...] = tuple(get_args(each)[1].name for each in get_args(Predict))
"""What can be asked, by the word that asks it."""


def refuse_to_generate(arguments: Sequence[str]) -> object:
    """No defaults but those of the fields. Raises ValueError for a request to write text."""
    if arguments and (told := refusal(arguments[0])):
        raise ValueError(told)
    return tyro.MISSING_NONPROP


def run_or_question(arguments: Sequence[str]) -> Sequence[str]:
    """`RUN ...` -> `task RUN ...`; what names a question, or hardly misses one, stays as it is."""
    if not arguments or arguments[0].startswith("-"):
        return arguments
    is_near = difflib.get_close_matches(arguments[0], QUESTIONS, n=1, cutoff=_NEAR)
    is_model_named = "--model" in typed_options(arguments)
    if is_model_named or (is_near and not Path(arguments[0]).exists()):
        return arguments
    return ["task", *arguments]


def _require_positive(option: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"--{option} must be at least 1, found {number}")
