"""Texts that break tokenizers, and a small vocabulary that makes WordPiece work on them."""

from __future__ import annotations

import string

from hypothesis import strategies as st

NASTY_PIECES = (
    "a", "B", "É", "e\u0301", "q\u0323\u0307", "\u0301", "İ", "ß", "ẞ", "ǅ", "ﬁ", "Å", "Ω", "Σ",
    "ΑΣ", "ΑΣ'Α", "ας", "Σ\u0301", "'", "’", "\u1fef", "\u037e", "·", "한", "국어",
    "\u1112\u1161\u11ab", "\u1100", "ㅋㅋ", "が", "か\u3099", "中", "国", "豈", "\U0002b820",
    "\U0002b91f", "\U0002f800", "\ue000", "\U0010ffff", "\u0378", "\ufffd", "\0", "\x7f", "\x85",
    "\x1c", "\x0b", "\t", "\n", "\r\n", " ", "\u00a0", "\u2028", "\u2029", "\u200b", "\u200d",
    "\ufe0f", "\u3000", "\u00ad", "\ufeff", "😀", "👩\u200d👩", "\U0001d165\U0001d16d", "\u0e33",
    "\u302e\u0323", "[MASK]", "[SEP]", "[UNK]", "##ing", "!", "،", "。", "\u166d", "\u2e43", "$",
    "^", "`", "x" * 99, "x" * 101, "\u0d46\u0d3e", "क़", "\u0fb2\u0f80", "①", "ｶﾞ", "\u2126",
)  # fmt: skip
NASTY_TEXTS = st.lists(
    st.sampled_from(NASTY_PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=8,
).map("".join)

_JAMO = [chr(code) for block in (0x1100, 0x1161, 0x11A8) for code in range(block, block + 27)]
_CHARACTERS = [
    *string.ascii_letters, *string.digits, *string.punctuation, *"αςσωéßふがか한국어ㅋ中国豈",
    *"。،’①カ\u0301\ue000\U0002b820", *_JAMO,
]  # fmt: skip
VOCABULARY = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_CHARACTERS, *(f"##{c}" for c in _CHARACTERS),
    "my", "dog", "is", "cute", "he", "likes", "play", "##ing", "don", "##xx", "mask", "한국",
    "##국어",
)  # fmt: skip
