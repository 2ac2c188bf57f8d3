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
    Question,
    Rows,
    System,
    bare_tokenizer,
    fastest_dtype,
    in_order,
    length_sorted,
)
from bertsmith.batch import PackedBatch
from bertsmith.inference import Predictor
from bertsmith.model.stream import Stream
from bertsmith.tasks import sentence_vectors


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a system is made, and what it needs."""

    make: Callable[[Path, int], System]
    """From the folder of `write_models` and a number of threads."""
    needs: tuple[str, ...] = ()
    """Packages, by the names they are imported by."""
    questions: tuple[Question, ...] = ("embed", "classify")
    """What it answers."""
    prepare: Callable[[Path], None] | None = None
    """Writes into the folder what `make` reads; once, not timed."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages it needs that are not here."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def ours(folder: Path, threads: int) -> System:
    """A `Predictor` as it comes."""
    predictor = Predictor.load(folder / OURS)
    model = predictor.model

    def logits(numbers: list[int], packed: PackedBatch) -> Rows:
        stream = Stream.of(packed)
        hidden = model.bert(stream, model.bert.pooled_rows(stream))
        assert model.next_sentence is not None
        rows: Rows = model.next_sentence(model.bert.pool_rows(hidden)).float().numpy()
        return rows

    def ask(question: Question, texts: list[str]) -> Rows:
        if question == "embed":
            return predictor.embed(texts)
        items = sentence_vectors.encode(texts, predictor.tokenizer, predictor.limit)
        return np.stack(predictor.in_order(items, logits))

    return ask


def transformers_default(folder: Path, threads: int) -> System:
    """Its pipelines as they come: float32, one text after the other."""
    from transformers import pipeline

    peer = str(folder / PEER)
    features = pipeline("feature-extraction", model=peer)
    classes = pipeline("text-classification", model=peer, function_to_apply="none", top_k=None)

    def ask(question: Question, texts: list[str]) -> Rows:
        if question == "embed":
            states = features(texts, return_tensors=True)
            return np.stack([one[0].mean(dim=0).numpy() for one in states])
        answers = [{score["label"]: score["score"] for score in one} for one in classes(texts)]
        return np.array([[one["LABEL_0"], one["LABEL_1"]] for one in answers], dtype=np.float32)

    return ask


def transformers_best(folder: Path, threads: int) -> System:
    """Length-sorted, scaled-dot-product attention, weights in bf16 where that is faster."""
    return _transformers(folder, PaddedModel(folder, fastest_dtype()))


def transformers_compiled(folder: Path, threads: int) -> System:
    """The same through torch.compile, its weights frozen into the graph."""
    torch._inductor.config.freezing = True
    return _transformers(folder, torch.compile(PaddedModel(folder, fastest_dtype()), dynamic=True))


def _transformers(folder: Path, model: Callable[..., tuple[Tensor, Tensor]]) -> System:
    tokenizer = bare_tokenizer(folder)

    def answer(question: Question, inputs: Inputs) -> Rows:
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        rows: Rows = model(**tensors)[OUTPUTS[question]].float().numpy()
        return rows

    def ask(question: Question, texts: list[str]) -> Rows:
        with torch.inference_mode():
            return in_order(
                (numbers, answer(question, inputs))
                for numbers, inputs in length_sorted(texts, tokenizer)
            )

    return ask


def sentence_transformers(folder: Path, threads: int) -> System:
    """`encode` with mean pooling, 16 texts together; it sorts them by length itself."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(folder / PEER), device="cpu", model_kwargs={"dtype": fastest_dtype()}
    )

    def ask(question: Question, texts: list[str]) -> Rows:
        vectors: Tensor = model.encode(
            texts, batch_size=16, show_progress_bar=False, convert_to_tensor=True
        )
        rows: Rows = vectors.float().numpy()
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
        prepare=export_onnx,
    ),
    "OpenVINO, latency": Entry(
        make=openvino_latency, needs=("openvino", "transformers"), prepare=export_openvino
    ),
    "OpenVINO, throughput": Entry(
        make=openvino_throughput, needs=("openvino", "transformers"), prepare=export_openvino
    ),
}
