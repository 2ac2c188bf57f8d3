"""`bertsmith convert`: a BERT of any format -> a directory that another tool reads, proved equal.

    bertsmith convert mini-en out/mini-en-onnx --to onnx
    bertsmith convert RUN out/ours --to hugging-face --dtype bfloat16 --push-to USER/NAME

The directory appears when it is whole and has been read back and compared; until then there is
none. Beside the weights lies a model card. One that the model had already is kept where it still
tells the truth, for the same format and number type; else it becomes a section of the new one.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from bertsmith.checkpoints.formats import Format, NumberType, dtype_refusal
from bertsmith.commands import convert_report
from bertsmith.files import atomic_directory, write_bytes, write_text
from bertsmith.model.sentence import Pooling, SentenceConfig

if TYPE_CHECKING:
    from bertsmith.checkpoints.exports import Export
    from bertsmith.checkpoints.original_card import OriginalCard
    from bertsmith.checkpoints.store import Loaded

CARD = "README.md"


@dataclass(frozen=True, kw_only=True)
class Convert:
    """Writes any BERT as transformers, sentence-transformers, ONNX or google-research/bert read it.

    What is written is read back and compared before it appears.
    """

    model: tyro.conf.Positional[str]
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    out: tyro.conf.Positional[Path]
    """The directory to write; it must be new or empty."""
    to: Format
    """Who is to read it."""
    dtype: NumberType = "float32"
    """What numbers are stored as."""
    pooling: tuple[Pooling, ...] = ()
    """How sentence vectors are made, for sentence-transformers and ONNX, without the model's dense
    layer; by default as the model says, for sentence-transformers else mean."""
    normalize: bool = False
    """Bring sentence vectors to length 1; also done where the model says so."""
    outputs: tuple[
        Literal[
            "last_hidden_state", "pooler_output", "sentence_embedding", "logits", "start_logits",
            "end_logits", "seq_relationship_logits",
        ],
        ...,
    ] = ()  # fmt: skip
    """What the ONNX graph gives; by default all that the model can."""
    without_head: bool = False
    """Leave out the head of the task that the model was fine-tuned on."""
    language: str | None = None
    """ISO code of the texts' language, for the card."""
    license: str | None = None
    """The Hub's name of the weights' licence, for the card: apache-2.0, cc-by-sa-4.0, ..."""
    push_to: str | None = None
    """Upload to this USER/NAME on the Hugging Face Hub, privately."""
    public: bool = False
    """Upload for everybody to see."""


def convert(run: Convert) -> None:
    """Writes, proves, says what was written, and uploads where asked.

    Raises ValueError before the model is loaded for what cannot be done at all.
    """
    _check(run)
    # They import torch, which takes seconds: only now, when the options are known to be sound.
    from bertsmith.checkpoints import exports
    from bertsmith.checkpoints.original_card import OriginalCard
    from bertsmith.checkpoints.store import load

    loaded = load(run.model)
    if run.without_head:
        loaded = _headless(loaded)
    original = OriginalCard.read(loaded.directory / CARD)
    export = exports.Export(
        format=run.to, dtype=run.dtype, sentence=_sentence(run, loaded), outputs=run.outputs
    )
    with atomic_directory(run.out) as temporary:
        changed = exports.write(temporary, loaded, export)
        _carry_task(temporary, loaded, export)
        is_kept = _add_card(temporary, run, loaded, export, original)
        proof = exports.verify(temporary, loaded, export)
    if original is not None and not is_kept:
        changed += (f"the model's own {CARD} tells of other files: it is a section of the new one",)
    for note in (*loaded.notes, *convert_report.left_out(run.to, run.pooling, loaded), *changed):
        print(f"note: {note}", file=sys.stderr)
    written = replace(loaded, head=exports.written_head(loaded, export))
    convert_report.report(run.out, run.to, run.dtype, written, proof)
    if run.push_to:
        print(f"uploaded to {_pushed(run.out, run.push_to, is_private=not run.public)}")


def _check(run: Convert) -> None:
    if run.out.exists() and not (run.out.is_dir() and not any(run.out.iterdir())):
        raise ValueError(f"{run.out} exists already and is not empty; choose a new directory")
    if fault := dtype_refusal(run.to, run.dtype):
        raise ValueError(f"nothing can be written as {run.to}: {fault}")
    if run.outputs and run.to != "onnx":
        raise ValueError(f"--outputs names what an ONNX graph gives; {run.to} has no such choice")
    if (run.pooling or run.normalize) and run.to not in ("sentence-transformers", "onnx"):
        raise ValueError(f"--pooling and --normalize say nothing in {run.to}: leave them out")
    is_vector_idle = bool(run.outputs) and "sentence_embedding" not in run.outputs
    if (run.pooling or run.normalize) and is_vector_idle:
        raise ValueError(
            "--pooling and --normalize say how sentence_embedding is made, which is not among "
            "--outputs: name it there, or leave them out"
        )
    if run.public and not run.push_to:
        raise ValueError("--public goes with --push-to USER/NAME")
    if run.push_to:
        from bertsmith.checkpoints import hub

        hub.check(run.push_to)
    if run.to == "onnx":
        from bertsmith.checkpoints import onnx

        onnx.require()


def _headless(loaded: Loaded) -> Loaded:
    """The model with its head's tensors among those that are left aside."""
    from bertsmith.checkpoints.names import to_hugging_face
    from bertsmith.checkpoints.task_heads import head_state

    if loaded.head is None:
        raise ValueError(f"--without-head: {loaded.directory} holds no task head to leave out")
    note = f"left out, as asked: the head for {loaded.head.config.kind.replace('_', ' ')}"
    left_aside = (*loaded.left_aside, *to_hugging_face(head_state(loaded.head)))
    return replace(loaded, head=None, notes=(*loaded.notes, note), left_aside=left_aside)


def _sentence(run: Convert, loaded: Loaded) -> SentenceConfig | None:
    """How sentence vectors are made: as typed, as the model says, or by mean; None for no vectors.

    An ONNX graph of a model that says nothing, or whose own cannot be made, has none, unless they
    are asked for; nor has one whose outputs are named without them. Raises ValueError for its own
    where they cannot be made, and for a pooled token that has seen nothing but itself.
    """
    is_unasked = bool(run.outputs) and "sentence_embedding" not in run.outputs
    if run.to not in ("sentence-transformers", "onnx") or is_unasked:
        return None
    said = loaded.sentence or SentenceConfig()
    is_silent = loaded.sentence is None or bool(said.refusal)
    if is_silent and run.to == "onnx" and not run.pooling and not run.normalize:
        return None
    if not run.pooling:
        said.require()
    wanted = replace(
        said,
        refusal="",
        pooling=run.pooling or said.pooling,
        dense=None if run.pooling else said.dense,
        is_normalized=run.normalize or said.is_normalized,
        max_tokens=said.max_tokens or loaded.config.max_position_embeddings,
    )
    wanted.require_context(loaded.config.direction)
    return wanted


def _carry_task(directory: Path, loaded: Loaded, export: Export) -> None:
    """Puts how the task reads examples beside the head, where the format holds one."""
    from bertsmith.checkpoints.exports import written_head
    from bertsmith.checkpoints.places import TASK

    stored = loaded.directory / TASK
    if stored.is_file() and written_head(loaded, export) is not None:
        write_bytes(directory / TASK, stored.read_bytes())


def _add_card(
    directory: Path, run: Convert, loaded: Loaded, export: Export, original: OriginalCard | None
) -> bool:
    """Writes the card beside the files in `directory`; says whether it is the model's own."""
    from bertsmith.commands.converted_card import is_still_true, new_card

    facts = run.language, run.license
    if original is not None and is_still_true(loaded, export, directory):
        own = (loaded.directory / CARD).read_bytes()
        (directory / CARD).write_bytes(original.with_facts(*facts).encode() if any(facts) else own)
        return True
    name = run.push_to or run.out.resolve().name
    card = new_card(loaded, export, run.model, name, original)
    is_on_hub = run.push_to is not None
    language = run.language or card.language
    card = replace(card, is_on_hub=is_on_hub, language=language, license=run.license)
    write_text(directory / CARD, card.text())
    return False


def _pushed(directory: Path, repo_id: str, *, is_private: bool) -> str:
    """The address; where the upload fails, how to do it again without converting."""
    from bertsmith.checkpoints import hub

    try:
        return hub.push(directory, repo_id, is_private=is_private)
    except OSError as error:
        private = ["--private"] if is_private else []
        again = shlex.join(["hf", "upload", repo_id, str(directory), *private])
        raise OSError(f"{error}; {directory} is whole, upload it later with `{again}`") from error
