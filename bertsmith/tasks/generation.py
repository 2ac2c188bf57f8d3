"""A request to write text -> why BERT does not.

People ask under many names, at every door: of the program, of `predict`, of `Predictor`.
"""

from __future__ import annotations

_NAMES = frozenset({
    "generate", "generate-text", "generation", "text-generation", "text2text-generation",
    "complete", "completion", "continue", "chat", "talk", "write", "rewrite", "paraphrase",
    "summarize", "summarise", "summary", "translate", "translation",
})  # fmt: skip


def refusal(name: str) -> str | None:
    """The explanation for a name that asks for text; None for every other."""
    if name.lower().replace("_", "-") not in _NAMES:
        return None
    return (
        f"BERT understands text and does not generate it ('{name}'): it reads a whole text at "
        f"once, from both sides, and never learned to write what comes next; use 'bertsmith "
        f"predict fill-mask' (Predictor.fill_mask) for words in their place, or a left-to-right "
        f"generator (a GPT-style model) for text"
    )
