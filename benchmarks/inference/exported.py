"""The peers that run an exported graph: ONNX Runtime and OpenVINO.

Both graphs come from the same model of `transformers`, with free numbers of texts and tokens.
Exporting is not timed. ONNX Runtime computes in float32, as it has no bf16 on x86; OpenVINO in bf16
where the hardware multiplies it. OpenVINO's two hints are two systems: which one is faster depends
on the machine and on how many texts come at a time.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from benchmarks.inference.padded import (
    INPUTS,
    OUTPUTS,
    PaddedModel,
    Place,
    Question,
    Rows,
    System,
    bare_tokenizer,
    fastest_dtype,
    in_order,
    length_sorted,
)

ONNX, OPENVINO = "model.onnx", "openvino.xml"
"""Their files in the folder of models."""
_NAMES = ("vectors", "logits")


def export_onnx(folder: Path) -> None:
    """Writes the graph that torch.onnx makes."""
    sizes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    torch.onnx.export(
        PaddedModel(folder, torch.float32), kwargs=example(folder), f=str(folder / ONNX),
        dynamo=True, dynamic_shapes=dict.fromkeys(INPUTS, sizes),
        input_names=list(INPUTS), output_names=list(_NAMES), verbose=False,
    )  # fmt: skip


def onnx_runtime(place: Place, file: str = ONNX) -> System:
    """All graph optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = place.threads
    session = onnxruntime.InferenceSession(
        str(place.folder / file), options, providers=["CPUExecutionProvider"]
    )
    tokenizer = bare_tokenizer(place.folder)

    def ask(question: Question, texts: list[str]) -> Rows:
        names = [_NAMES[OUTPUTS[question]]]
        return in_order(
            (numbers, session.run(names, inputs)[0])
            for numbers, inputs in length_sorted(texts, tokenizer)
        )

    return ask


def export_openvino(folder: Path) -> None:
    """Writes what OpenVINO's own reader of PyTorch makes, its weights in float32.

    Not by `openvino.convert_model`, which does the same and reports it to its maker.
    """
    import openvino
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    model = PaddedModel(folder, torch.float32)
    reader = FrontEndManager().load_by_framework("pytorch")
    traced = TorchScriptPythonDecoder(model, example_input=example(folder))
    graph = reader.convert(reader.load(traced))
    openvino.save_model(graph, folder / OPENVINO, compress_to_fp16=False)


def openvino_latency(place: Place, file: str = OPENVINO) -> System:
    """All threads on one batch."""
    return _openvino(place, file, "LATENCY")


def openvino_throughput(place: Place, file: str = OPENVINO) -> System:
    """As many batches at a time as OpenVINO thinks best."""
    return _openvino(place, file, "THROUGHPUT")


def _openvino(place: Place, file: str, hint: str) -> System:
    import openvino

    settings = {
        "PERFORMANCE_HINT": hint,
        "INFERENCE_NUM_THREADS": place.threads,
        "INFERENCE_PRECISION_HINT": "bf16" if fastest_dtype() == torch.bfloat16 else "f32",
    }
    compiled = openvino.Core().compile_model(place.folder / file, "CPU", settings)
    queue = openvino.AsyncInferQueue(compiled)
    tokenizer = bare_tokenizer(place.folder)

    def ask(question: Question, texts: list[str]) -> Rows:
        answers: list[tuple[list[int], Rows]] = []

        def keep(request: openvino.InferRequest, numbers: list[int]) -> None:
            # A copy: the next batch is written to the same place.
            answers.append((numbers, request.get_output_tensor(OUTPUTS[question]).data.copy()))

        queue.set_callback(keep)
        for numbers, inputs in length_sorted(texts, tokenizer):
            queue.start_async(inputs, numbers)
        queue.wait_all()
        return in_order(answers)

    return ask


def example(folder: Path) -> dict[str, Tensor]:
    """Two texts as a graph reads them."""
    inputs = next(length_sorted(["a b c", "b"], bare_tokenizer(folder)))[1]
    return {name: torch.from_numpy(array) for name, array in inputs.items()}
