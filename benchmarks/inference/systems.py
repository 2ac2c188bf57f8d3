"""The systems that answer: each a function from a question and texts to one row a text.

Ours as it comes to a user, and every peer in its best known form beside its default one
(`padded`, `exported`), all from the same weights, in bf16 where the hardware
multiplies it. Where it depends which form is best, both are here. It does not know how the systems
are timed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.inference.eight_bits import (
    ctranslate2_int8,
    export_ctranslate2,
    export_onnx_int8,
    export_openvino_int8,
    onnx_runtime_int8,
    openvino_int8_latency,
    openvino_int8_throughput,
)
from benchmarks.inference.exported import (
    export_onnx,
    export_openvino,
    onnx_runtime,
    openvino_latency,
    openvino_throughput,
)
from benchmarks.inference.padded import (
    OURS,
    OUTPUTS,
    PEER,
    Inputs,
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
from benchmarks.systems import on_device
from bertsmith.batch import PackedBatch
from bertsmith.inference import Predictor
from bertsmith.model.int8_weights import multiplies_int8
from bertsmith.model.stream import Stream
from bertsmith.packing import Arriving
from bertsmith.tasks import sentence_vectors
from bertsmith.train.config import AnswerPrecision


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a system is made, and what it needs."""

    make: Callable[[Place], System]
    needs: tuple[str, ...] = ()
    """Packages, by the names they are imported by."""
    questions: tuple[Question, ...] = ("embed", "classify")
    """What it answers."""
    prepare: tuple[Callable[[Path], None], ...] = ()
    """Write into the folder what `make` reads, one after the other; once, not timed."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """The types that it runs on."""
    works: Callable[[], bool] = lambda: True
    """Whether this processor has what it needs."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages it needs that are not here."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def ours(place: Place, precision: AnswerPrecision = "auto") -> System:
    """A `Predictor` as it comes."""
    predictor = Predictor.load(place.folder / OURS, device=place.device, precision=precision)
    model = predictor.model

    def logits(numbers: list[int], packed: PackedBatch) -> Arriving[Rows]:
        stream = Stream.of(packed, device=place.device)
        hidden = model.bert(stream, model.bert.pooled_rows(stream))
        assert model.next_sentence is not None
        found = model.next_sentence(model.bert.pool_rows(hidden)).float()
        return Arriving(found, lambda rows: rows.numpy().copy())

    def ask(question: Question, texts: list[str]) -> Rows:
        if question == "embed":
            return predictor.embed(texts)
        items = sentence_vectors.encode(texts, predictor.tokenizer, predictor.limit)
        return np.stack(predictor.in_order(items, logits))

    return ask


def ours_int8(place: Place) -> System:
    """The same with the matrices of all layers in eight bits."""
    return ours(place, "int8")


def transformers_default(place: Place) -> System:
    """Its pipelines as they come: float32, one text after the other."""
    from transformers import pipeline

    peer, device = str(place.folder / PEER), place.device
    features = pipeline("feature-extraction", model=peer, device=device)
    classes = pipeline(
        "text-classification", model=peer, device=device, function_to_apply="none", top_k=None
    )

    def ask(question: Question, texts: list[str]) -> Rows:
        if question == "embed":
            states = features(texts, return_tensors=True)
            return np.stack([one[0].mean(dim=0).cpu().numpy() for one in states])
        answers = [{score["label"]: score["score"] for score in one} for one in classes(texts)]
        return np.array([[one["LABEL_0"], one["LABEL_1"]] for one in answers], dtype=np.float32)

    return ask


def transformers_best(place: Place) -> System:
    """Length-sorted, scaled-dot-product attention, weights in bf16 where that is faster."""
    return _transformers(place, _padded_model(place))


def transformers_compiled(place: Place) -> System:
    """The same through torch.compile; on a CPU its weights are frozen into the graph."""
    torch._inductor.config.freezing = place.device.type == "cpu"
    return _transformers(place, torch.compile(_padded_model(place), dynamic=True))


def _padded_model(place: Place) -> PaddedModel:
    return PaddedModel(place.folder, fastest_dtype(place.device), place.device)


def _transformers(place: Place, model: Callable[..., tuple[Tensor, Tensor]]) -> System:
    tokenizer, device = bare_tokenizer(place.folder), place.device

    def answer(question: Question, inputs: Inputs) -> Rows:
        tensors = {
            name: on_device(torch.from_numpy(array), device) for name, array in inputs.items()
        }
        rows: Rows = model(**tensors)[OUTPUTS[question]].float().cpu().numpy()
        return rows

    def ask(question: Question, texts: list[str]) -> Rows:
        with torch.inference_mode():
            return in_order(
                (numbers, answer(question, inputs))
                for numbers, inputs in length_sorted(texts, tokenizer, device)
            )

    return ask


def sentence_transformers(place: Place) -> System:
    """`encode` with mean pooling, 16 texts together (1,024 on a GPU); it sorts them by length."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(place.folder / PEER),
        device=place.device.type,
        model_kwargs={"dtype": fastest_dtype(place.device)},
    )
    num_texts = 16 if place.device.type == "cpu" else 1024

    def ask(question: Question, texts: list[str]) -> Rows:
        vectors: Tensor = model.encode(
            texts, batch_size=num_texts, show_progress_bar=False, convert_to_tensor=True
        )
        rows: Rows = vectors.float().cpu().numpy()
        return rows

    return ask


SYSTEMS: dict[str, Entry] = {
    "bertsmith": Entry(make=ours),
    "transformers default": Entry(make=transformers_default, needs=("transformers",)),
    "transformers best": Entry(make=transformers_best, needs=("transformers",)),
    "transformers compiled": Entry(make=transformers_compiled, needs=("transformers",)),
    "sentence-transformers": Entry(
        make=sentence_transformers, needs=("sentence_transformers",), questions=("embed",)
    ),
    "ONNX Runtime": Entry(
        make=onnx_runtime,
        needs=("onnxruntime", "onnx", "onnxscript", "transformers"),
        prepare=(export_onnx,),
        devices=("cpu",),
    ),
    "OpenVINO, latency": Entry(
        make=openvino_latency,
        needs=("openvino", "transformers"),
        prepare=(export_openvino,),
        devices=("cpu",),
    ),
    "OpenVINO, throughput": Entry(
        make=openvino_throughput,
        needs=("openvino", "transformers"),
        prepare=(export_openvino,),
        devices=("cpu",),
    ),
    "bertsmith int8": Entry(make=ours_int8, devices=("cpu",), works=multiplies_int8),
    "ONNX Runtime int8": Entry(
        make=onnx_runtime_int8,
        needs=("onnxruntime", "onnx", "onnxscript", "transformers"),
        prepare=(export_onnx, export_onnx_int8),
        devices=("cpu",),
    ),
    "OpenVINO int8, latency": Entry(
        make=openvino_int8_latency,
        needs=("openvino", "nncf", "transformers"),
        prepare=(export_openvino, export_openvino_int8),
        devices=("cpu",),
    ),
    "OpenVINO int8, throughput": Entry(
        make=openvino_int8_throughput,
        needs=("openvino", "nncf", "transformers"),
        prepare=(export_openvino, export_openvino_int8),
        devices=("cpu",),
    ),
    "CTranslate2 int8": Entry(
        make=ctranslate2_int8,
        needs=("ctranslate2", "transformers"),
        questions=("embed",),
        prepare=(export_ctranslate2,),
        devices=("cpu",),
    ),
}
