"""Checks of how a model's vocabulary fits its weights.

A vocabulary of the right size may still be another model's. Training leaves its mark in the token
embedding: pieces that continue a word lie apart from those that begin one, so a linear rule learnt
on half of the rows knows the other half, if the vocabulary is the model's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from bertsmith.certificate.comparisons import Numbers
from bertsmith.certificate.computed import numbers
from bertsmith.certificate.rows import Row, outcome, skipped
from bertsmith.certificate.subject import Subject
from bertsmith.text.rules import SPECIAL_TOKENS

_SPARE_ROWS, _MULTIPLE = 128, 8
_FEW_PIECES = 100
_ROWS_LOOKED_AT = 16_384
# Of trained models 0.95 and more; of vocabularies of other models, or off by a row, 0.87 and less.
_OWN = 0.9
# Rows of random numbers differ in length by 1 / sqrt(2 H) of it, trained ones by more.
_TRAINED = 1.4


def vocabulary_size(subject: Subject) -> Row:
    """An entry for every row of the token embedding."""
    entries, rows = subject.tokenizer.vocab_size, subject.loaded.config.vocab_size
    is_padding = rows % _MULTIPLE == 0 and 0 < rows - entries < _SPARE_ROWS
    return Row(
        name="vocabulary entries = rows of the token embedding",
        status=outcome(entries == rows),
        found=f"{entries:,} entries",
        expected=f"{rows:,} rows",
        reference="modeling.py, BertConfig.vocab_size",
        difference="spare_rows" if is_padding else "",
    )


def special_tokens(subject: Subject) -> Row:
    """Five different special tokens, the config's [PAD] among them."""
    tokenizer = subject.tokenizer
    rows = {token: tokenizer.id_of(token) for token in SPECIAL_TOKENS}
    pad_id = subject.loaded.config.pad_token_id
    faults = [f"{token} is missing" for token, row in rows.items() if row is None]
    if len(set(rows.values())) < len(rows):
        faults.append("two share a row")
    if rows["[PAD]"] != pad_id:
        faults.append(f"pad_token_id is {pad_id}")
    shown = ", ".join(f"{token} {row}" for token, row in rows.items())
    return Row(
        name="special tokens",
        status=outcome(not faults),
        found="; ".join([shown, *faults]),
        expected="five rows of their own, [PAD] at the config's pad_token_id",
        reference="tokenization.py; create_pretraining_data.py",
    )


def entries_once(subject: Subject) -> Row:
    """No entry stands in the vocabulary twice: only its last row could be reached."""
    counts = Counter(subject.tokenizer.vocabulary)
    twice = [entry for entry, count in counts.items() if count > 1]
    return Row(
        name="no vocabulary entry twice",
        status=outcome(not twice),
        found=f"{len(twice):,} entries, {twice[0]!r} first" if twice else "none",
        expected="none",
        reference="tokenization.py, load_vocab",
        difference="entries_twice",
    )


def pieces_apart(subject: Subject) -> Row:
    """Whether the weights tell continuing pieces from words, as this vocabulary names them."""
    name = "weights know ## pieces from words"
    table = numbers(subject.model.bert.token_embedding).astype(np.float64)
    is_piece = subject.tokenizer.is_continuation[: len(table)]
    table = table[: len(is_piece)]
    if min(is_piece.sum(), (~is_piece).sum()) < _FEW_PIECES:
        return skipped(name, f"fewer than {_FEW_PIECES} of one kind", "-")
    lengths = np.linalg.norm(table, axis=1)
    if lengths.std() / lengths.mean() * np.sqrt(2.0 * table.shape[1]) < _TRAINED:
        return skipped(name, "the token embedding is hardly trained", "-")
    step = max(1, len(table) // _ROWS_LOOKED_AT)
    share = _told_apart(table[::step], is_piece[::step])
    return Row(
        name=name,
        status=outcome(share >= _OWN),
        found=f"{share:.1%} of pairs told apart",
        expected=f"{_OWN:.0%} and more, or the vocabulary is another model's",
        reference="-",
    )


CHECKS: tuple[Callable[[Subject], Row], ...] = (
    vocabulary_size, special_tokens, entries_once, pieces_apart,
)  # fmt: skip


def _told_apart(table: Numbers, is_piece: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """The share of (piece, word) pairs that ridge regression on the other rows puts in order."""
    table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-12)
    is_even = np.arange(len(table)) % 2 == 0
    shares = []
    for learnt, asked in ((is_even, ~is_even), (~is_even, is_even)):
        rows, kinds = table[learnt], is_piece[learnt]
        inner = rows.T @ rows + 1e-3 * len(rows) * np.eye(rows.shape[1])
        scores = table[asked] @ np.linalg.solve(inner, rows.T @ (kinds - kinds.mean()))
        ranks = scores.argsort().argsort()
        num_pieces = int(is_piece[asked].sum())
        above = ranks[is_piece[asked]].sum() - num_pieces * (num_pieces - 1) / 2
        shares.append(above / (num_pieces * (len(ranks) - num_pieces)))
    return float(np.mean(shares))
