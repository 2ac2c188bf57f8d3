"""The systems that multiply eight bits: ours, and every peer that does.

What it costs in accuracy is not seen here, where weights are drawn: `bertsmith evaluate --precision
int8` shows it of a model that has learned something.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.inference.exported import (
    ONNX,
    OPENVINO,
    onnx_runtime,
    openvino_latency,
    openvino_throughput,
)
from benchmarks.inference.padded import (
    CALIBRATING,
    PEER,
    Inputs,
    Place,
    Question,
    Rows,
    System,
    bare_tokenizer,
    in_order,
    length_sorted,
)

_ONNX, _OPENVINO, _CTRANSLATE2 = "int8.onnx", "int8.xml", "ctranslate2"


def export_onnx_int8(folder: Path) -> None:
    """Weights per output channel; activations as large as each batch has them."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(folder / ONNX)
    del graph.graph.value_info[:]  # shapes that PyTorch wrote, at which its reader stumbles
    quantize_dynamic(graph, folder / _ONNX, per_channel=True, weight_type=QuantType.QInt8)


def onnx_runtime_int8(place: Place) -> System:
    """`onnx_runtime` on that graph."""
    return onnx_runtime(place, _ONNX)


def export_openvino_int8(folder: Path) -> None:
    """As NNCF makes it for transformers, with activations as large as texts had them before."""
    import nncf
    import openvino

    graph = openvino.Core().read_model(folder / OPENVINO)
    tokenizer = bare_tokenizer(folder)
    asked = (folder / CALIBRATING).read_text(encoding="utf-8").split("\n")
    texts = [next(length_sorted([text], tokenizer))[1] for text in asked]
    rounded = nncf.quantize(
        graph,
        nncf.Dataset(texts),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(texts),
    )
    openvino.save_model(rounded, folder / _OPENVINO, compress_to_fp16=False)


def openvino_int8_latency(place: Place) -> System:
    """OpenVINO for latency on that graph; what is not int8 in bf16 where the hardware has it."""
    return openvino_latency(place, _OPENVINO)


def openvino_int8_throughput(place: Place) -> System:
    """The same for throughput."""
    return openvino_throughput(place, _OPENVINO)


def export_ctranslate2(folder: Path) -> None:
    """What its own converter makes of the peer's model."""
    from ctranslate2.converters import TransformersConverter

    converter = TransformersConverter(str(folder / PEER))
    converter.convert(str(folder / _CTRANSLATE2), quantization="int8")


def ctranslate2_int8(place: Place) -> System:
    """Its encoder, in batches of texts sorted by length; mean vectors of what it gives."""
    import ctranslate2

    encoder = ctranslate2.Encoder(
        str(place.folder / _CTRANSLATE2), compute_type="int8", intra_threads=place.threads
    )
    tokenizer = bare_tokenizer(place.folder)

    def answer(inputs: Inputs) -> Rows:
        lengths = inputs["attention_mask"].sum(axis=1)
        ids = [
            row[:length].tolist() for row, length in zip(inputs["input_ids"], lengths, strict=True)
        ]
        states = np.array(encoder.forward_batch(ids).last_hidden_state)  # (N, S, H)
        is_real = inputs["attention_mask"][:, :, None]
        rows: Rows = (states * is_real).sum(axis=1) / lengths[:, None]
        return rows

    def ask(question: Question, texts: list[str]) -> Rows:
        assert question == "embed"
        return in_order(
            (numbers, answer(inputs)) for numbers, inputs in length_sorted(texts, tokenizer)
        )

    return ask
