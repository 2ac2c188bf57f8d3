"""A model -> one ONNX graph with three padded inputs, compared with the packed model it came from.

The graph takes any number of sequences of any length up to the model's positions. It is exported
from the plain definition in `model.padded` by PyTorch's own exporter. It knows no tokenizer.

Source: torch.onnx.export(dynamo=True); https://onnx.ai.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertsmith.batch import PackedBatch
from bertsmith.fusion import unfused
from bertsmith.model.padded import INPUTS, Output, PaddedBert, named_logits
from bertsmith.model.pooling import sentence_vectors
from bertsmith.model.stream import Stream
from bertsmith.randomness import Stream as Purpose
from bertsmith.randomness import integers

FILE = "model.onnx"
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-2}
"""The largest difference allowed, as a share of the largest number of an output where that is over
1: sums in another order, in a type that keeps 7 or 3 digits."""

_LARGEST_FILE = 1_900_000_000  # bytes of weights; a protobuf ends at 2 GiB
_CHECKED_LENGTHS = ((1,), (5, 2, 7), (3, 11, 1, 30, 17))

Arrays = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """How an exported graph compared with the packed model."""

    runner: str
    """What ran it, with its version."""
    largest: float
    """The largest difference on real tokens, as in `TOLERANCES`."""
    num_batches: int
    """Batches compared, each of another shape than the export's example."""


def require() -> None:
    """Raises ModuleNotFoundError, naming the extra, where the exporter's packages are missing."""
    for name in ("onnx", "onnxscript"):
        if _module(name) is None:
            raise ModuleNotFoundError(
                f"the ONNX export needs the package {name}: pip install 'bertsmith[onnx]'"
            )


def write(path: Path, model: PaddedBert) -> None:
    """Exports to `path`; beyond 1.9 GB the weights lie beside it in a file of their own."""
    require()
    longest = model.model.config.max_position_embeddings
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=longest)}
    # Three tensors: of one tensor given twice, the exporter makes one input read in both places.
    examples = tuple(torch.ones(2, min(8, longest), dtype=torch.int64) for _ in INPUTS)
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            model.eval(),
            examples,
            input_names=list(INPUTS),
            output_names=list(model.outputs),
            dynamic_shapes=dict.fromkeys(INPUTS, sizes),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    _forget_sources(program)
    num_bytes = sum(each.numel() * each.element_size() for each in model.parameters())
    program.save(str(path), external_data=num_bytes > _LARGEST_FILE)


def check(path: Path, model: PaddedBert) -> Check:
    """Runs the file on batches of other shapes and compares every output with the packed model's.

    By onnxruntime where it is installed, else by ONNX's own reference. What stands where the mask
    is 0 is noise here, so that a graph that reads it fails. Raises ValueError beyond the tolerance.
    """
    runner, run = _runner(path)
    dtype = next(model.parameters()).dtype
    worst = 0.0
    for number, lengths in enumerate(_CHECKED_LENGTHS):
        packed = _packed(lengths, model, number)
        expected = packed_outputs(model, packed)
        found = run(list(model.outputs), padded_with_noise(packed, model, number))
        for name, array, tensor in zip(model.outputs, found, expected, strict=True):
            is_real = packed.to_padded()[1].astype(bool)
            real = array[is_real] if model.is_a_row_a_token(name) else array
            difference = _difference(torch.from_numpy(real.astype(np.float32)), tensor.float())
            if not difference <= TOLERANCES[dtype]:
                raise ValueError(
                    f"{path}: {name} differs from the model's by {difference:.1e} in {runner} on a "
                    f"batch of lengths {lengths}, expected at most {TOLERANCES[dtype]:.0e}; the "
                    f"export is not to be used"
                )
            worst = max(worst, difference)
    return Check(runner=runner, largest=worst, num_batches=len(_CHECKED_LENGTHS))


def packed_outputs(model: PaddedBert, packed: PackedBatch) -> list[Tensor]:
    """The outputs by the packed model, (T, ...) where the padded one gives (N, S, ...)."""
    parts, stream = model.model, Stream.of(packed)
    with torch.inference_mode(), unfused():
        hidden = parts.bert(stream)  # (T, H)
        found: dict[Output, Tensor] = {"last_hidden_state": hidden}
        if parts.bert.pooler is not None:
            found["pooler_output"] = parts.bert.pool(hidden, stream)  # (N, H)
        if model.sentence is not None:
            found["sentence_embedding"] = sentence_vectors(
                hidden, stream, model.sentence, model.dense
            )
        if model.head is not None:
            found |= named_logits(model.head, model.head.logits(parts.bert, stream))
        if parts.masked_lm is not None and "logits" not in found:
            embedding = parts.bert.token_embedding
            found["logits"] = parts.masked_lm(hidden, embedding)  # (T, V)
        if parts.next_sentence is not None:
            found["seq_relationship_logits"] = parts.next_sentence(found["pooler_output"])
    return [found[name] for name in model.outputs]


def padded_with_noise(packed: PackedBatch, model: PaddedBert, seed: int) -> Arrays:
    """The three inputs, with any tokens and segments where the mask is 0."""
    config, (ids, mask, types) = model.model.config, packed.to_padded()
    places = np.arange(ids.size).reshape(ids.shape)
    for array, high in ((ids, config.vocab_size), (types, config.type_vocab_size)):
        noise = integers(high, seed, Purpose.HEAD, high, places)
        array[mask == 0] = noise[mask == 0]
    return dict(zip(INPUTS, (ids, mask, types), strict=True))


def _forget_sources(program: torch.onnx.ONNXProgram) -> None:
    """Takes off what the exporter says of each node: paths and lines on the exporting machine."""
    model = program.model
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()


def _packed(lengths: Sequence[int], model: PaddedBert, seed: int) -> PackedBatch:
    config = model.model.config
    real = np.minimum(lengths, config.max_position_embeddings).astype(np.int32)
    places = np.arange(int(real.sum()))
    token_ids = integers(config.vocab_size, seed, Purpose.INIT, 0, places)
    segment_ids = integers(config.type_vocab_size, seed, Purpose.INIT, 1, places)
    return PackedBatch(
        token_ids=token_ids.astype(np.int32),
        segment_ids=segment_ids.astype(np.int32),
        lengths=real,
        keys=np.arange(len(real)),
    )


def _difference(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max() / max(1.0, float(expected.abs().max())))


def _runner(path: Path) -> tuple[str, Callable[[list[str], Arrays], list[npt.NDArray[np.generic]]]]:
    """Its name, and names of outputs and inputs -> arrays."""
    runtime = _module("onnxruntime")
    if runtime is not None:
        runtime.disable_telemetry_events()
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return f"onnxruntime {runtime.__version__}", session.run
    reference = importlib.import_module("onnx.reference").ReferenceEvaluator(str(path))
    return "ONNX's reference", reference.run


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporter's remarks on its own workings, and on torchvision, from a person."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
