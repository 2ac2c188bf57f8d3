"""A table of answers: rows of the same systems, one a number of threads -> all its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.tables.shown import OURS, Row, amount, bold, times

OURS_INT8 = f"{OURS} int8"
OPENVINO = ("OpenVINO, throughput", "OpenVINO, latency")
PIPELINES = "transformers default"
OPENVINO_INT8 = ("OpenVINO int8, throughput", "OpenVINO int8, latency")
OTHERS_INT8 = ("ONNX Runtime int8", "CTranslate2 int8")
INT8 = (*OPENVINO_INT8, *OTHERS_INT8)
RENAMED = {"OpenVINO int8": "OpenVINO int8, latency"}
"""What rows call a system where one hint alone was asked."""
SYSTEMS = {
    OURS: bold(OURS),
    "OpenVINO, throughput": "OpenVINO {openvino}, throughput hint",
    "OpenVINO, latency": "OpenVINO {openvino}, latency hint",
    "transformers compiled": "transformers {transformers}, compiled",
    "transformers best": "transformers {transformers}, SDPA, length-sorted",
    "sentence-transformers": "sentence-transformers {sentence_transformers}",
    "ONNX Runtime": "ONNX Runtime {onnxruntime}, float32",
    PIPELINES: "transformers {transformers}, pipelines as they come, float32",
    OURS_INT8: bold(OURS_INT8),
    "OpenVINO int8, throughput": "OpenVINO int8, throughput hint",
    "OpenVINO int8, latency": "OpenVINO int8, latency hint",
    **{name: name for name in OTHERS_INT8},
}
"""What a line calls them, in the lines' order."""
SETTINGS = {
    "embed, mixed": "vectors, mixed",
    "classify, mixed": "classes, mixed",
    "embed, 128 tokens": "128 tokens",
    "one text, 16 tokens": "one text, ms, 16 tokens",
    "one text, 64 tokens": "64",
    "one text, 128 tokens": "128",
    "one text after a pause, 16 tokens": "after a pause, 16",
}
BESIDE = {
    "beside OpenVINO's better hint": (OURS, OPENVINO),
    "beside the pipelines": (OURS, (PIPELINES,)),
    "in eight bits, beside OpenVINO's": (OURS_INT8, OPENVINO_INT8),
    "in eight bits, beside the best other": (OURS_INT8, INT8),
}
"""Ours, and whose best it stands beside: in speed, of one text in its time."""


def table(title: str, rows: Sequence[Row]) -> list[list[str]]:
    """The header; a line a system, a column a setting of a row; what ours is beside others."""
    columns = [(setting, row) for setting in SETTINGS for row in rows if setting in row["settings"]]
    found = [figures(row["settings"][setting]) for setting, row in columns]
    versions = {
        name: ".".join(version.split(".")[:2])
        for row in rows
        for name, version in row["versions"].items()
    }
    systems = [
        [label.format_map(versions), *_shown(system, found)]
        for system, label in SYSTEMS.items()
        if any(system in each for each in found)
    ]
    return [[title, *_headings(columns)], *systems, *_beside(columns, found)]


def _headings(columns: Sequence[tuple[str, Row]]) -> Iterator[str]:
    """The setting, and with how many threads; what stands in the cell before is not said again."""
    before = None
    for setting, row in columns:
        threads = str(row["threads"])
        unit = "thread" if threads == "1" else "threads"
        yield threads if setting == before else f"{SETTINGS[setting]}: {threads} {unit}"
        before = setting


def figures(setting: Row) -> Mapping[str, float]:
    """Texts a second of each system, or milliseconds for one."""
    found: Mapping[str, float] = setting.get("median_ms") or setting["texts_per_second"]
    return {RENAMED.get(name, name): figure for name, figure in found.items()}


def _shown(system: str, found: Sequence[Mapping[str, float]]) -> Iterator[str]:
    for each in found:
        cell = amount(each[system]) if system in each else ""
        yield bold(cell) if system.startswith(OURS) else cell


def _beside(
    columns: Sequence[tuple[str, Row]], found: Sequence[Mapping[str, float]]
) -> Iterator[list[str]]:
    name = "fraction_of_matrix_rate"
    shares = [row["settings"][setting].get(name, {}).get(OURS) for setting, row in columns]
    yield ["of the matrix rate", *("" if share is None else f"{share:.0%}" for share in shares)]
    told = set()
    for label, (ours, others) in BESIDE.items():
        named = ours, *(other for other in others if any(other in each for each in found))
        if len(named) > 1 and named not in told:
            cells = (
                _cell(setting.startswith("one text"), each, ours, named[1:])
                for (setting, _), each in zip(columns, found, strict=True)
            )
            yield [label, *cells]
        told.add(named)


def _cell(is_time: bool, figures: Mapping[str, float], ours: str, others: Sequence[str]) -> str:
    theirs = [figures[other] for other in others if other in figures]
    if ours not in figures or not theirs:
        return ""
    return amount(figures[ours] / min(theirs)) if is_time else times(figures[ours], max(theirs))
