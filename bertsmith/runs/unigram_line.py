"""A held-out loss beside the unigram line, in words: what knowing only frequencies would reach."""

from __future__ import annotations


def beside_unigram(loss: float, line: float) -> str:
    """`0.500 under the unigram line at 6.500`, or above it."""
    side = "under" if loss < line else "above"
    return f"{abs(line - loss):.3f} {side} the unigram line at {line:.3f}"


def unigram_warning(loss: float, line: float) -> str | None:
    """A sentence where a finished model knows no more than how frequent tokens are."""
    if loss < line:
        return None
    return (
        f"the held-out loss ({loss:.3f}) is not under the unigram line ({line:.3f}): the model has "
        f"learned no more than how frequent tokens are, and its answers mean nothing. Train for "
        f"longer (--minutes or --steps), or on more text"
    )
