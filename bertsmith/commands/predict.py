"""`bertsmith predict`: questions from the command line, files or a pipe -> a pre-trained answer.

    bertsmith predict fill-mask --model mini-en "Paris is the [MASK] of France."
    bertsmith predict next-sentence --model mini-en "She cooked pasta." "It was delicious."

The model is loaded once; input streams through it window by window, so that a file may be larger
than memory. BERT understands text, it does not write it: these are the two questions it was trained
to answer.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertsmith.commands.questions import Questions

if TYPE_CHECKING:
    from bertsmith.inference import Predictor
    from bertsmith.tasks.fill_mask import FilledText
    from bertsmith.tasks.next_sentence import Follows

_MASK = "[MASK]"


@dataclass(frozen=True, kw_only=True)
class FillMask:
    """The likeliest words at every `[MASK]` of a text.

    Texts come as arguments, from files with one text a line, or through a pipe.
    """

    model: str
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts with one or more `[MASK]`."""
    file: tuple[Path, ...] = ()
    """Files of texts, one a line; `-` is standard input."""
    top_k: int = 5
    """Candidates shown for each mask."""
    targets: tuple[str, ...] = ()
    """Judge only these words; each must be one token of the vocabulary."""
    jsonl: bool = False
    """One JSON object a text instead of a table."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""


@dataclass(frozen=True, kw_only=True)
class NextSentence:
    """The probability that one text follows another.

    A pair comes as two arguments, from files with two texts a line and a tab between them, or
    through a pipe.
    """

    model: str
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """The first and the second text."""
    file: tuple[Path, ...] = ()
    """Files of pairs, one a line, a tab between the two; `-` is standard input."""
    jsonl: bool = False
    """One JSON object a pair instead of a table."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""


Predict = (
    Annotated[FillMask, tyro.conf.subcommand("fill-mask")]
    | Annotated[NextSentence, tyro.conf.subcommand("next-sentence")]
)


def predict(run: FillMask | NextSentence) -> None:
    """Answers on standard output, in the order of the questions; what was not read is reported.

    Raises ValueError or FileNotFoundError for a question that cannot be asked, those in arguments
    and files before the model is loaded.
    """
    if not run.texts and not run.file and sys.stdin.isatty():
        raise ValueError("nothing to answer: give a text, a --file, or pipe texts in")
    if isinstance(run, FillMask):
        _fill_masks(run)
    else:
        _judge_pairs(run)


def _fill_masks(run: FillMask) -> None:
    asked = [(f"text {number}", text) for number, text in enumerate(run.texts, start=1)]
    questions = Questions(asked, run.file, _with_mask)
    questions.check()
    predictor = _loaded(run)
    show = _filled_as_json if run.jsonl else _filled_as_table
    num_cut = 0
    for texts in questions.windows():
        for answer in predictor.fill_mask(texts, top_k=run.top_k, targets=run.targets):
            show(answer)
            num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.limit, "only the part around their masks was read")


def _judge_pairs(run: NextSentence) -> None:
    if len(run.texts) not in (0, 2):
        raise ValueError(f"a pair is two texts, found {len(run.texts)}: quote each of them")
    asked = [("the arguments", "\t".join(run.texts))] if run.texts else []
    questions = Questions(asked, run.file, _two_texts)
    questions.check()
    predictor = _loaded(run)
    show = _follows_as_json if run.jsonl else _follows_as_line
    num_cut = 0
    for pairs in questions.windows():
        for pair, answer in zip(pairs, predictor.next_sentence(pairs), strict=True):
            show(pair, answer)
            num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.limit, "the end of their longer text was not read")


def _loaded(run: FillMask | NextSentence) -> Predictor:
    # Torch takes seconds to import: only now, when the questions are known to be sound.
    from bertsmith.inference import Predictor
    from bertsmith.train.device import choose_device

    loaded = Predictor.load(run.model, device=choose_device(run.device))
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    return loaded


def _with_mask(text: str) -> str:
    if _MASK not in text:
        raise ValueError(f"no {_MASK} in {_short(text)}: write {_MASK} where a word is to be found")
    return text


def _two_texts(text: str) -> tuple[str, str]:
    first, _, second = text.partition("\t")
    if not (first.strip() and second.strip()) or "\t" in second:
        raise ValueError(f"expected two texts with one tab between them, found {_short(text)}")
    return first, second


def _short(text: str) -> str:
    return repr(textwrap.shorten(text, 60, placeholder="…"))


def _filled_as_json(answer: FilledText) -> None:
    masks = [[asdict(candidate) for candidate in candidates] for candidates in answer.masks]
    _print_json(
        {
            "text": answer.question.text,
            "filled": answer.filled,
            "masks": masks,
            "num_unread": answer.num_unread,
        }
    )


def _filled_as_table(answer: FilledText) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=Text(answer.question.text), title_justify="left")
    several = len(answer.masks) > 1
    for name in (*(("mask",) if several else ()), "token", "probability"):
        table.add_column(name, justify="left" if name == "token" else "right")
    for number, candidates in enumerate(answer.masks, start=1):
        for candidate in candidates:
            cells = (Text(candidate.token), f"{candidate.probability:.4f}")
            table.add_row(*((str(number),) if several else ()), *cells)
        table.add_section()
    Console().print(table)


def _follows_as_json(pair: tuple[str, str], answer: Follows) -> None:
    _print_json({"first": pair[0], "second": pair[1], **asdict(answer)})


def _follows_as_line(pair: tuple[str, str], answer: Follows) -> None:
    print(f"{answer.probability:.4f}  {pair[0]} | {pair[1]}")


def _print_json(answer: Mapping[str, object]) -> None:
    # A terminal or pipe that is not UTF-8 gets JSON's own escapes, and loses nothing.
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(answer, ensure_ascii=not is_utf8))
