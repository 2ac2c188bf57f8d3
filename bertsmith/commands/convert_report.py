"""A conversion -> what is printed of it: what the format does not hold, the files, what is next.

It writes nothing.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bertsmith.checkpoints.formats import Format, NumberType, head_facts_left_out, head_refusal
from bertsmith.model.sentence import Pooling

if TYPE_CHECKING:
    from bertsmith.checkpoints.store import Loaded


def report(out: Path, to: Format, dtype: NumberType, written: Loaded, proof: str) -> None:
    """The files, what was proved and what is next; `written` has the head that the format holds."""
    files = sorted(file for file in out.rglob("*") if file.is_file())
    sizes = {str(file.relative_to(out)): file.stat().st_size for file in files}
    print(f"wrote {out}: {to}, {dtype}, {sum(sizes.values()) / 1e6:,.1f} MB")
    width = max(map(len, sizes))
    for name, size in sizes.items():
        print(f"  {name:<{width}}  {size:>13,} bytes")
    print(f"checked: {proof}")
    print(f"next: {_next(out, to, written)}")


def left_out(to: Format, pooling: tuple[Pooling, ...], loaded: Loaded) -> list[str]:
    """What the format does not hold, a sentence each."""
    notes = []
    if to == "sentence-transformers" and loaded.model.objectives:
        notes.append("left out: the heads; sentence-transformers holds the encoder alone")
    has_heads = bool(loaded.model.objectives) or loaded.head is not None
    if to == "hugging-face" and not has_heads and not loaded.model.bert.pooler:
        notes.append(
            "this model has no pooler: transformers draws one at random; read no pooled row"
        )
    if to in ("hugging-face", "tensorflow") and loaded.sentence is not None:
        dense = loaded.sentence.dense
        layer = "" if dense is None else f" and {dense} after it, with its weights"
        is_held = "it" if dense is None else "them"
        notes.append(
            f"left out: the pooling of sentence vectors{layer}; {to} does not hold {is_held}"
        )
    if loaded.sentence is not None and (lost := loaded.sentence.lost_by(pooling)):
        notes.append(lost)
    prompts = loaded.sentence.advice_on_prompts if loaded.sentence is not None else ""
    if to != "sentence-transformers" and prompts:
        notes.append(f"left out: the prompts {prompts}")
    return [*notes, *_left_out_of_head(to, loaded)]


def _left_out_of_head(to: Format, loaded: Loaded) -> list[str]:
    """What the format does not hold of a task's head, a sentence each."""
    if loaded.head is None:
        return []
    head, notes = loaded.head.config, []
    if fault := head_refusal(to, head):
        return [f"left out: the head for {head.kind.replace('_', ' ')}; {fault}"]
    if facts := head_facts_left_out(to, head):
        notes.append(f"left out: {facts}")
    is_named_alike = head.kind != "question_answering" and loaded.model.language_model is not None
    if to == "onnx" and is_named_alike:
        notes.append("left out: the language model's logits; `logits` are the task head's")
    return notes


def _next(out: Path, to: Format, written: Loaded) -> str:
    """What to type next, ready for a shell."""
    quoted = json.dumps(str(out))
    if to == "sentence-transformers":
        code = (
            f"from sentence_transformers import SentenceTransformer as S; "
            f'print(S({quoted}).encode(["A sentence."]).shape)'
        )
    elif to == "onnx":
        graph = json.dumps(f"{out}/model.onnx")
        code = (
            f"import onnxruntime; s = onnxruntime.InferenceSession({graph}); "
            f"print([(each.name, each.shape) for each in s.get_outputs()])"
        )
    elif "masked_lm" in written.model.objectives and written.head is None:
        text = "A sentence with one [MASK] in it."
        return shlex.join(["bertsmith", "predict", "fill-mask", "--model", str(out), text])
    else:
        part = "model" if written.head is None else "head"
        code = f"import bertsmith; print(bertsmith.load({quoted}).{part})"
    return shlex.join(["python", "-c", code])
