import json
import sys
from pathlib import Path

import pytest

from bertsmith.train.log import MetricsLog, TensorBoardLog, read_metrics


def write_steps(path: Path, first: int, last: int, resumed_step: int = 0) -> int:
    with MetricsLog(path, resumed_step=resumed_step) as log:
        for step in range(first, last + 1):
            log.write({"step": step, "loss": step / 2, "note": "한국어"})
        return log.num_dropped


def test_records_are_one_line_each_and_readable_while_the_log_is_open(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    log = MetricsLog(path)
    log.write({"step": 1, "loss": 2.5})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 1, "loss": 2.5}
    ]
    log.close()


def test_resuming_cuts_back_to_the_resumed_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 9)
    assert write_steps(path, 6, 7, resumed_step=5) == 4
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3, 4, 5, 6, 7]
    assert read_metrics(path)[0] == {"step": 1, "loss": 0.5, "note": "한국어"}


def test_a_last_line_cut_short_by_a_kill_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 3)
    path.write_bytes(path.read_bytes()[:-5])
    assert [record["step"] for record in read_metrics(path)] == [1, 2]
    assert write_steps(path, 3, 3, resumed_step=2) == 1
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3]


def test_a_damaged_record_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnot json\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2 is not a record of metrics"):
        MetricsLog(path, resumed_step=5)


def test_a_record_without_a_step_is_refused(tmp_path: Path) -> None:
    with (
        MetricsLog(tmp_path / "metrics.jsonl") as log,
        pytest.raises(ValueError, match="integer 'step', found None"),
    ):
        log.write({"loss": 1.0})


def test_tensorboard_missing_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'bertsmith\[tensorboard\]'"):
        TensorBoardLog(tmp_path)


def test_tensorboard_gets_the_numbers_and_not_the_text(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoardLog(tmp_path)
    log.write({"step": 3, "loss": 0.5, "note": "text", "missing": None})
    log.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 0.5)]
