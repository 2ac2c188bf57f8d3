"""The command line of `bertsmith extract`: which file, which model, which vectors, where they go.

    bertsmith extract texts.txt --model mini-en --out vectors.parquet

It looks at no text and at no model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.features.plan import FeaturePlan
from bertsmith.reading.tables import TEXT
from bertsmith.train.config import AnswerPrecision


@dataclass(frozen=True, kw_only=True)
class Extract:
    """Writes the hidden states of a file of texts, a row a text."""

    file: tyro.conf.Positional[Path]
    """One text a line (.txt), or a table: .csv, .tsv, .jsonl, .parquet; compressed or not."""
    model: str
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    out: Path
    """Where to write: .parquet (with texts, tokens and their places), .npz or .safetensors."""
    text_field: str = TEXT
    """The field or column that holds the text, in CSV, TSV, JSONL and Parquet."""
    id_field: str | None = None
    """The field or column that names a text, for Parquet (default: its row's number in the
    file, from 0; rows that are left out count)."""
    header: bool = True
    """Whether the first row of CSV and TSV names the columns; without, they are 1, 2, 3, ..."""
    plan: Annotated[FeaturePlan, tyro.conf.arg(name="")] = field(default_factory=FeaturePlan)
    """Which vectors."""
    skip_malformed: bool = False
    """Leave out, count and list rows of another width or without the field; without this the first
    one stops."""
    force: bool = False
    """Replace what is at --out."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: AnswerPrecision = "fp32"
    """In what the model computes: fp32, bf16, fp16, int8, or auto (bf16 or fp16 where the hardware
    multiplies it faster). These are faster, and a vector's third digit is no longer exact; with
    int8 the second."""
