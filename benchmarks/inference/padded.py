"""What the peers share: weights on disk, `transformers`' model, and texts as padded batches.

The best known form for all of them: texts sorted by length, tokenised by the bare `tokenizers`
library, in batches of at most 1,024 tokens with their padding (65,536 on a GPU): 32 mixed texts a
batch are a fifth of padding. It does not know what runs the model.

Legend: N texts of a batch, S the longest, H hidden size.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from benchmarks.machine import CPU
from bertsmith.checkpoints.names import to_hugging_face
from bertsmith.checkpoints.store import save
from bertsmith.model.config import BertConfig
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.device import choose_precision, dtype_of

Question = Literal["embed", "classify"]
"""The mean of a text's last hidden states; or the logits of pooler and linear layer."""
Rows = npt.NDArray[np.float32]
"""One answer a text."""
System = Callable[[Question, list[str]], Rows]
Inputs = dict[str, npt.NDArray[np.int64]]

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65_536}
"""Tokens that a peer reads together, padding counted, by the type of device."""
OURS, PEER = "bertsmith", "hugging_face"
"""The folders of both checkpoints."""
CALIBRATING = "calibrating.txt"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS: dict[Question, int] = {"embed": 0, "classify": 1}
"""Where `PaddedModel` gives the answer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a system runs, and what it reads."""

    folder: Path
    """Of `write_models`."""
    threads: int
    device: torch.device = CPU


def write_models(
    folder: Path, config: BertConfig, tokenizer: Tokenizer, calibrating: Sequence[str]
) -> None:
    """The same drawn weights as our checkpoint and as `BertForSequenceClassification`.

    Our next-sentence head is the classifier: pooler and linear layer. Beside them are the texts, of
    one line each, by which a peer may learn how large activations are.
    """
    (folder / CALIBRATING).write_text("\n".join(calibrating), encoding="utf-8")
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=config.initializer_range, seed=0)
    save(folder / OURS, model, config, tokenizer)
    peer = folder / PEER
    shutil.copytree(folder / OURS, peer)
    weights = {
        name.replace("cls.seq_relationship.", "classifier."): tensor
        for name, tensor in to_hugging_face(model.state_dict()).items()
        if not name.startswith("cls.predictions.")
    }
    save_file(weights, peer / "model.safetensors", metadata={"format": "pt"})
    content = json.loads((peer / "config.json").read_text(encoding="utf-8"))
    content["architectures"] = ["BertForSequenceClassification"]
    (peer / "config.json").write_text(json.dumps(content), encoding="utf-8")


class PaddedModel(nn.Module):
    """`transformers`' model, whose answers are (N, H) mean vectors and (N, 2) logits."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: torch.device = CPU) -> None:
        import transformers

        super().__init__()
        self.model = transformers.BertForSequenceClassification.from_pretrained(
            folder / PEER, dtype=dtype, attn_implementation="sdpa"
        )
        self.to(device).eval()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """All (N, S)."""
        output = self.model.bert(input_ids, attention_mask, token_type_ids)
        states = output.last_hidden_state  # (N, S, H)
        weights = attention_mask.unsqueeze(2).to(states.dtype)  # (N, S, 1)
        vectors = (states * weights).sum(dim=1) / weights.sum(dim=1)  # (N, H)
        return vectors, self.model.classifier(output.pooler_output)


def length_sorted(
    texts: list[str], tokenizer: tokenizers.Tokenizer, device: torch.device = CPU
) -> Iterator[tuple[list[int], Inputs]]:
    """Padded batches for the device, the longest texts first, with the texts' numbers."""
    ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
    order = sorted(range(len(ids)), key=lambda number: -len(ids[number]))
    while order:
        width = len(ids[order[0]])
        num_texts = max(1, TOKENS_PER_BATCH[device.type] // width)
        numbers, order = order[:num_texts], order[num_texts:]
        shape = (len(numbers), width)
        inputs = {name: np.zeros(shape, dtype=np.int64) for name in INPUTS}
        for row, number in enumerate(numbers):
            length = len(ids[number])
            inputs["input_ids"][row, :length] = ids[number]
            inputs["attention_mask"][row, :length] = 1
        yield numbers, inputs


def in_order(answers: Iterable[tuple[list[int], Rows]]) -> Rows:
    """Batches of numbered rows -> all rows by their numbers."""
    rows = {
        number: row
        for numbers, batch in answers
        for number, row in zip(numbers, batch, strict=True)
    }
    return np.stack([rows[number] for number in range(len(rows))])


def bare_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """The library's own, as the checkpoint's file describes it."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / PEER / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def fastest_dtype(device: torch.device = CPU) -> torch.dtype:
    """bf16 where the hardware multiplies it; else float32, on a GPU float16.

    On a CPU that multiplies float16 the peers' own is no faster than their float32 (docs/log.md).
    """
    return dtype_of(choose_precision("auto", device), device)
