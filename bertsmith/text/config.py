"""What kind of vocabulary to learn, as plain values, refused before any text is read.

Nothing here does anything or needs numpy, so that a command line made of these values answers at
once. How words are made of text is `rules.TokenizerConfig`'s.

Source: the released uncased vocabulary, for the number of `[unused]` rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from bertsmith.text.rules import SPECIAL_TOKENS, TokenizerConfig

Score = Literal["frequency", "likelihood"]

RELEASED_UNUSED_ROWS = 994
_LARGE_VOCABULARY = 28_000


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """What kind of vocabulary to learn."""

    vocab_size: int = 30_522
    """Rows, special and `[unused]` ones included (paper: 30,522 uncased, 28,996 cased)."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """The rules that make words of text."""
    min_count: int = 2
    """A character seen less often is left out; words that hold it become `[UNK]`."""
    alphabet_limit: int = 0
    """The most characters kept, most frequent first; 0: as many as cover all but 1 in 100,000
    characters of the text, in at most a third of the rows, and all Hangul syllables seen
    `min_count` times, in at most half of them. Rows without a pair to join take further ones."""
    common_hangul: bool = True
    """Where a tenth of the characters are Hangul and alphabet_limit is 0: rows also for those of
    the 2,350 syllables and 51 letters of KS X 1001 that the text lacks: at most a quarter of the
    rows, and those that no pair needs."""
    score: Score = "frequency"
    """`frequency`: join the most frequent pair; `likelihood`: the highest count/(left * right)."""
    min_pair_count: int = 2
    """Pairs seen less often are never joined; with `likelihood` a higher value (100) is wise."""
    unused_rows: int | None = None
    """`[unused]` rows; by default 994, the released layout, from 28,000 rows on, else none."""
    memory_bytes: int = 1 << 30
    """Where the words need more than this, the rarest are left out of the learning and counted."""

    def __post_init__(self) -> None:
        """Refuses a contradiction before the text is read."""
        if self.score not in get_args(Score):
            raise ValueError(f"score must be one of {get_args(Score)}, found {self.score!r}")
        for name in ("min_count", "min_pair_count", "memory_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        for name in ("alphabet_limit", "num_unused"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, found {getattr(self, name)}")
        # An ideograph that is a word of its own takes one row, any other character two.
        rows_each = 1 if self.tokenizer.split_cjk and self.alphabet_limit else 2
        fewest = len(SPECIAL_TOKENS) + self.num_unused + rows_each * max(1, self.alphabet_limit)
        if self.vocab_size < fewest:
            raise ValueError(
                f"vocab_size {self.vocab_size} has no room for {len(SPECIAL_TOKENS)} special "
                f"tokens, {self.num_unused} [unused] rows and an alphabet; expected "
                f"at least {fewest}: raise vocab_size, or lower unused_rows or alphabet_limit"
            )

    @property
    def num_unused(self) -> int:
        """The `[unused]` rows, the default decided."""
        if self.unused_rows is not None:
            return self.unused_rows
        return RELEASED_UNUSED_ROWS if self.vocab_size >= _LARGE_VOCABULARY else 0
