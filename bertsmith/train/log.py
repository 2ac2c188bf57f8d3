"""Numbers of a run -> metrics.jsonl, and TensorBoard where asked: one record a line.

A record is flat JSON with a `step`. Resuming cuts the file back to the resumed step, so nothing
stands there twice; a step and the evaluation after it are two records of one `step`. It does not
know what the numbers mean.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from bertsmith import files

Record = Mapping[str, int | float | str | bool | None]


class Log(Protocol):
    """Where records go."""

    def write(self, record: Record) -> None:
        """Keeps one record, which must have an integer `step`."""

    def close(self) -> None:
        """Flushes what is left."""


class MetricsLog:
    """Appends records to a JSON-lines file; every record is on its way to disk when written."""

    def __init__(self, path: Path, *, resumed_step: int = 0) -> None:
        """Opens `path`, first dropping what a later or broken-off run left behind.

        Records beyond `resumed_step`, and a last line that a kill cut short, are dropped and
        counted in `num_dropped`. Raises ValueError for a damaged line elsewhere.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.num_dropped = _cut_back(path, resumed_step) if path.exists() else 0
        """Lines dropped at opening."""
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Appends one line."""
        _check_step(record)
        with files.naming(self._path):
            self._file.write(json.dumps(dict(record), ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        with files.naming(self._path):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TensorBoardLog:
    """Writes every number of a record as a TensorBoard scalar; needs the `tensorboard` extra."""

    def __init__(self, directory: Path, *, resumed_step: int = 0) -> None:
        """Opens an event file; TensorBoard hides what an earlier run wrote after `resumed_step`."""
        require_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(directory), purge_step=resumed_step + 1)

    def write(self, record: Record) -> None:
        """Adds one point to each curve; text and missing values have none."""
        step = _check_step(record)
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Closes the event file."""
        self._writer.close()


def require_tensorboard() -> None:
    """Raises ValueError without the `tensorboard` extra; imports nothing."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "TensorBoard is not installed: pip install 'bertsmith[tensorboard]', or leave it out; "
            "metrics.jsonl holds the same numbers"
        )


def read_metrics(path: Path) -> list[dict[str, int | float | str | bool | None]]:
    """Every whole record of a metrics file, in order; a last line cut short is left out.

    Raises FileNotFoundError, and ValueError with file and line for a damaged record.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    records = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
            _check_step(record)
        except (json.JSONDecodeError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}:{number} is not a record of metrics: {error}") from error
        records.append(record)
    return records


def _cut_back(path: Path, resumed_step: int) -> int:
    records = read_metrics(path)
    kept = [record for record in records if _check_step(record) <= resumed_step]
    is_whole = path.read_bytes()[-1:] in (b"", b"\n")
    num_dropped = len(records) - len(kept) + (not is_whole)
    if num_dropped:
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
        files.write_text(path, "".join(lines))
    return num_dropped


def _check_step(record: Record) -> int:
    step = record.get("step")
    if not isinstance(step, int):
        raise ValueError(f"a record needs an integer 'step', found {step!r}")
    return step
