"""BERT's `config.json` as a frozen value, and the sizes and objectives that have names.

The field names are those of the released `config.json` files, so reading and writing them is a
mapping of equal names. This file does not know where configs are stored.

Source: Devlin et al. 2018, section 3 and Table 6; google-research/bert README (24 miniatures).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Direction = Literal["bidirectional", "left_to_right", "right_to_left", "two_way"]
"""What a state sees of its sequence: all, one side, or each half of its numbers another side."""
LayerKind = Literal["transformer", "lstm"]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu", "tanh"]
Objective = Literal["masked_lm", "next_sentence", "left_to_right_lm", "right_to_left_lm"]

DIRECTION_OF: dict[Objective, Direction] = {
    "masked_lm": "bidirectional",
    "left_to_right_lm": "left_to_right",
    "right_to_left_lm": "right_to_left",
}
"""What attention may see while a language model learns: never the token it predicts."""


_LARGEST, _MOST_LAYERS = 2**24, 2**10
"""No BERT comes near; what a broken file asks for beyond them ends in one line, not in torch."""


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The architecture of one encoder."""

    vocab_size: int = 30_522
    """Rows of the token embedding (paper: 30,522 uncased, 28,996 cased)."""
    hidden_size: int = 768
    """H: width of a hidden state (paper: BASE 768, LARGE 1024)."""
    num_hidden_layers: int = 12
    """L: Transformer layers (paper: BASE 12, LARGE 24)."""
    num_attention_heads: int = 12
    """A: attention heads; H must be a multiple of it (paper: BASE 12, LARGE 16)."""
    intermediate_size: int = 3072
    """Feed-forward width (paper: 4H); of an LSTM its cells (ELMo: 8H)."""
    hidden_act: Activation = "gelu"
    """Exact GELU, or `gelu_tanh` as google-research/bert since February 2019."""
    hidden_dropout_prob: float = 0.1
    """Dropout on the embedding sum and on both outputs of a layer (paper: 0.1)."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout on the attention probabilities (paper: 0.1)."""
    max_position_embeddings: int = 512
    """Rows of the position embedding: the longest sequence (paper: 512)."""
    type_vocab_size: int = 2
    """Rows of the segment embedding (paper: 2)."""
    initializer_range: float = 0.02
    """Standard deviation of the truncated normal at initialisation (google-research/bert: 0.02)."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in LayerNorm (google-research/bert: 1e-12)."""
    pad_token_id: int = 0
    """Row of `[PAD]`, written to config.json for others: only an ONNX export is ever padded."""
    tie_word_embeddings: bool = True
    """Whether the language-model head compares with the token embeddings (the original: yes)."""
    direction: Direction = "bidirectional"
    """What a state may see; `left_to_right` is Table 5's ablation, `two_way` two models joined."""
    layer_kind: LayerKind = "transformer"
    """What a layer is; `lstm`: ELMo's, which reads one way and has neither heads nor attention."""

    def __post_init__(self) -> None:
        """Refuses a contradiction before any tensor is made."""
        sizes = {
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "type_vocab_size": self.type_vocab_size,
        }
        for name, size in sizes.items():
            most = _MOST_LAYERS if name == "num_hidden_layers" else _LARGEST
            if not 1 <= size <= most:
                raise ValueError(f"{name} must be from 1 to {most:,}, found {size:,}")
        has_heads = self.layer_kind == "transformer"
        if has_heads and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        probabilities = {
            "hidden_dropout_prob": self.hidden_dropout_prob,
            "attention_probs_dropout_prob": self.attention_probs_dropout_prob,
        }
        for name, probability in probabilities.items():
            if not 0.0 <= probability < 1.0:
                raise ValueError(f"{name} must be in [0, 1), found {probability}")
        if not 0.0 < self.layer_norm_eps < 1.0:  # nor is a NaN
            raise ValueError(f"layer_norm_eps must be between 0 and 1, found {self.layer_norm_eps}")
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id must be a row of the vocabulary, from 0 to {self.vocab_size - 1:,}, "
                f"found {self.pad_token_id:,}"
            )
        self._refuse_directions()

    def _refuse_directions(self) -> None:
        """What no layer reads, and halves that are none."""
        if self.layer_kind == "lstm" and self.direction == "bidirectional":
            raise ValueError(
                "an lstm reads in one direction: direction must be left_to_right or right_to_left, "
                "or two_way for two of them joined; found bidirectional"
            )
        halved = (self.hidden_size, self.num_attention_heads, self.intermediate_size)
        if self.direction == "two_way" and any(size % 2 for size in halved):
            raise ValueError(
                f"a two_way model is two halves: hidden_size, num_attention_heads and "
                f"intermediate_size must be even, found {', '.join(map(str, halved))}"
            )

    @property
    def told_kind(self) -> str:
        """What kind of encoder it is, in words; a BERT of one direction is one too."""
        layers = "LSTM" if self.layer_kind == "lstm" else "BERT"
        return f"two-way pair of {layers}s" if self.direction == "two_way" else layers

    @property
    def sides(self) -> tuple[BertConfig, BertConfig]:
        """The two models that a two-way one joins: from left to right, and from right to left."""
        assert self.direction == "two_way"
        half = replace(
            self,
            hidden_size=self.hidden_size // 2,
            num_attention_heads=self.num_attention_heads // 2,
            intermediate_size=self.intermediate_size // 2,
            direction="left_to_right",
        )
        return half, replace(half, direction="right_to_left")

    @property
    def head_size(self) -> int:
        """K = H / A."""
        return self.hidden_size // self.num_attention_heads

    def shaped(self, other: BertConfig) -> BertConfig:
        """With the other's layers, width, heads and feed-forward width."""
        return replace(
            self,
            num_hidden_layers=other.num_hidden_layers,
            hidden_size=other.hidden_size,
            num_attention_heads=other.num_attention_heads,
            intermediate_size=other.intermediate_size,
        )


def sized(num_hidden_layers: int, hidden_size: int, num_attention_heads: int = 0) -> BertConfig:
    """BASE with another depth and width; heads default to one per 64 dimensions."""
    return BertConfig(
        num_hidden_layers=num_hidden_layers,
        hidden_size=hidden_size,
        num_attention_heads=num_attention_heads or max(1, hidden_size // 64),
        intermediate_size=4 * hidden_size,
    )


BASE = BertConfig()
LARGE = sized(24, 1024)
TINY, MINI, SMALL, MEDIUM = sized(2, 128), sized(4, 256), sized(4, 512), sized(8, 512)
BASE_CASED, LARGE_CASED = replace(BASE, vocab_size=28_996), replace(LARGE, vocab_size=28_996)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "medium": MEDIUM, "base": BASE, "large": LARGE}

MINIATURES = {
    f"L{layers}-H{hidden}": sized(layers, hidden)
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden in (128, 256, 512, 768)
}

TABLE_6 = (
    sized(3, 768, 12), sized(6, 768, 3), sized(6, 768, 12),
    sized(12, 768, 12), sized(12, 1024, 16), sized(24, 1024, 16),
)  # fmt: skip
