"""Answers -> standard output: JSON lines for programs, lines and tables for people.

It does not know where questions come from, and asks no model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertsmith.commands.json_lines import print_json
from bertsmith.commands.predict_options import Attention
from bertsmith.files import atomic_file

if TYPE_CHECKING:
    from bertsmith.tasks.fill_mask import FilledText
    from bertsmith.tasks.look import Link, Look
    from bertsmith.tasks.next_sentence import Follows
    from bertsmith.tasks.pseudo_perplexity import ScoredText
    from bertsmith.tasks.sentence_vectors import SentenceVector, Similar

Pair = tuple[str, str]


def filled_as_json(answer: FilledText) -> None:
    """All candidates of all masks."""
    masks = [[asdict(candidate) for candidate in candidates] for candidates in answer.masks]
    print_json(
        {
            "text": answer.question.text,
            "filled": answer.filled,
            "masks": masks,
            "num_unread": answer.num_unread,
        }
    )


def filled_as_table(answer: FilledText) -> None:
    """A row a candidate; masks are numbered where there are several."""
    several = len(answer.masks) > 1
    rows = [
        [
            [*([str(number)] if several else []), candidate.token, f"{candidate.probability:.4f}"]
            for candidate in candidates
        ]
        for number, candidates in enumerate(answer.masks, start=1)
    ]
    columns = [*(["mask"] if several else []), "token", "probability"]
    _print_table(answer.question.text, columns, rows)


def pair_as_json(pair: Pair, answer: Follows | Similar) -> None:
    """The pair with what was answered."""
    print_json({"first": pair[0], "second": pair[1], **asdict(answer)})


def pair_as_line(pair: Pair, answer: Follows | Similar) -> None:
    """The probability or the cosine, then the pair."""
    value, _ = astuple(answer)
    print(f"{value:.4f}  {pair[0]} | {pair[1]}")


def vector_as_json(text: str, answer: SentenceVector) -> None:
    """The text with its vector, in the digits that a float32 has."""
    vector = [float(f"{value:.9g}") for value in answer.vector.tolist()]
    print_json({"text": text, "vector": vector, "num_unread": answer.num_unread})


def scored_as_json(answer: ScoredText, *, with_tokens: bool) -> None:
    """The text with its perplexity, and every token's part in it if asked for."""
    question = answer.question
    content: dict[str, object] = {
        "text": question.text,
        "perplexity": answer.perplexity,
        "log_likelihood": answer.log_likelihood,
        "num_tokens": len(question.tokens),
        "num_unknown": question.num_unknown,
        "is_windowed": question.is_windowed,
    }
    if with_tokens:
        content["tokens"] = [
            {"token": token, "span": span, "log_likelihood": value}
            for token, span, value in zip(
                question.tokens,
                question.spans.tolist(),
                answer.log_likelihoods.tolist(),
                strict=True,
            )
        ]
    print_json(content)


def scored_as_line(answer: ScoredText) -> None:
    """The perplexity, then the text."""
    print(f"{answer.perplexity:.2f}  {answer.question.text}")


def scored_as_table(answer: ScoredText) -> None:
    """A row a token, with its probability."""
    rows = [
        [token, f"{math.exp(value):.4f}"]
        for token, value in zip(
            answer.question.tokens, answer.log_likelihoods.tolist(), strict=True
        )
    ]
    title = f"{answer.perplexity:.2f}  {answer.question.text}"
    _print_table(title, ["token", "probability"], [rows])


def look_as_json(answer: Look, run: Attention) -> None:
    """The tokens, and the links that were asked for as numbers of tokens."""
    layer, links = _links(answer, run)
    print_json(
        {
            "tokens": answer.question.tokens,
            "layer": layer,
            "head": run.head,
            "links": [asdict(link) for link in links],
            "num_unread": answer.num_unread,
        }
    )


def look_as_table(answer: Look, run: Attention) -> None:
    """A row a link."""
    layer, links = _links(answer, run)
    num_layers, num_heads = answer.attention.shape[:2]
    head = f"mean of {num_heads} heads" if run.head is None else f"head {run.head} of {num_heads}"
    tokens = answer.question.tokens
    rows = [
        [
            f"{link.query} {tokens[link.query]}",
            f"{link.key} {tokens[link.key]}",
            f"{link.weight:.4f}",
        ]
        for link in links
    ]
    title = f"layer {layer} of {num_layers}, {head}: {' '.join(tokens)}"
    _print_table(title, ["token", "looks at", "share"], [rows])


def look_as_file(answer: Look, path: Path) -> None:
    """Everything, as arrays in one .npz file."""
    question = answer.question
    with atomic_file(path) as file:
        np.savez(
            file,
            tokens=np.array(question.tokens),
            spans=question.spans,
            segments=question.item.segment_ids,
            attention=answer.attention,
            hidden=answer.hidden,
        )
    attention, hidden = answer.attention.shape, answer.hidden.shape
    print(f"{path}: tokens, spans, segments, attention {attention}, hidden {hidden}")


def _links(answer: Look, run: Attention) -> tuple[int, list[Link]]:
    layer = len(answer.attention) if run.layer is None else run.layer
    with_special = not run.without_special
    return layer, answer.links(layer, run.head, top_k=run.top_k, with_special=with_special)


def _print_table(
    title: str, columns: Sequence[str], sections: Iterable[Iterable[Sequence[str]]]
) -> None:
    """Rows in sections, every cell as it is: brackets in a person's text are no markup."""
    print(title)
    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="left" if name in ("token", "looks at") else "right")
    for rows in sections:
        for row in rows:
            table.add_row(*map(Text, row))
        table.add_section()
    Console().print(table)
