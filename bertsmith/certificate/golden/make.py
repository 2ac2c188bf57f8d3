"""Writes the golden values beside itself: `python -m bertsmith.certificate.golden.make [FOLDER]`.

Every value follows from the restatements in this folder, which share no code with what is
certified. The files come out the same to the byte wherever they are made: numbers are rounded to 12
decimals, far above the last places in which processors differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bertsmith.certificate.golden.data_values import masking_values, pair_values
from bertsmith.certificate.golden.model_values import encoder_values
from bertsmith.certificate.golden.text_values import input_values, tokenization_values
from bertsmith.certificate.golden.training_values import (
    initialization_values,
    optimizer_values,
    schedule_values,
)

VALUES: dict[str, Callable[[], dict[str, object]]] = {
    "encoder": encoder_values,
    "tokenization": tokenization_values,
    "inputs": input_values,
    "masking": masking_values,
    "pairs": pair_values,
    "optimizer": optimizer_values,
    "schedule": schedule_values,
    "initialization": initialization_values,
}
"""File name without .json -> what makes its content."""


def main(folder: Path) -> None:
    """Writes every file."""
    for name, values in VALUES.items():
        content = json_text(values()) + "\n"
        (folder / f"{name}.json").write_text(content, encoding="ascii", newline="\n")


def json_text(value: object, indent: str = "") -> str:
    """JSON in ASCII, an entry a line; a list that holds neither lists nor objects is one line."""
    inner = indent + " "
    if isinstance(value, Mapping) and value:
        lines = [f"{inner}{json.dumps(key)}: {json_text(v, inner)}" for key, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, list | Mapping) for each in value):
        return "[\n" + ",\n".join(inner + json_text(v, inner) for v in value) + f"\n{indent}]"
    return json.dumps(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
