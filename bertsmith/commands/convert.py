"""`bertsmith convert`: a BERT of any format -> a directory that another tool reads, proved equal.

    bertsmith convert mini-en out/mini-en-onnx --to onnx
    bertsmith convert RUN out/ours --to hugging-face --dtype bfloat16 --push-to USER/NAME

The directory appears when it is whole and has been read back and compared; until then there is
none. Beside the weights lies a model card. One that the model had already is kept where it still
tells the truth, for the same format and number type; else it becomes a section of the new one.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from bertsmith.checkpoints.formats import Format, NumberType, dtype_refusal
from bertsmith.files import atomic_directory, read_json, write_text

if TYPE_CHECKING:
    from bertsmith.checkpoints.exports import Export
    from bertsmith.checkpoints.original_card import OriginalCard
    from bertsmith.checkpoints.store import Loaded
    from bertsmith.model.sentence import SentenceConfig

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
    pooling: tuple[Literal["cls", "mean", "max"], ...] = ()
    """How sentence vectors are made, for sentence-transformers and ONNX; as the model says, for
    sentence-transformers else mean."""
    normalize: bool = False
    """Bring sentence vectors to length 1; also done where the model says so."""
    outputs: tuple[
        Literal[
            "last_hidden_state", "pooler_output", "sentence_embedding", "logits",
            "seq_relationship_logits",
        ],
        ...,
    ] = ()  # fmt: skip
    """What the ONNX graph gives; by default all that the model can."""
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
    original = OriginalCard.read(loaded.directory / CARD)
    export = exports.Export(
        format=run.to, dtype=run.dtype, sentence=_sentence(run, loaded), outputs=run.outputs
    )
    with atomic_directory(run.out) as temporary:
        changed = exports.write(temporary, loaded, export)
        _add_card(temporary, run, loaded, export, original)
        proof = exports.verify(temporary, loaded, export)
    for note in (*loaded.notes, *_left_out(run, loaded), *changed):
        print(f"note: {note}", file=sys.stderr)
    _report(run, loaded, proof)
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
    if run.public and not run.push_to:
        raise ValueError("--public goes with --push-to USER/NAME")
    if run.push_to:
        from bertsmith.checkpoints import hub

        hub.check(run.push_to)
    if run.to == "onnx":
        from bertsmith.checkpoints import onnx

        onnx.require()


def _sentence(run: Convert, loaded: Loaded) -> SentenceConfig | None:
    """How sentence vectors are made: as typed, as the model says, or by mean; None for no vectors.

    An ONNX graph of a model that says nothing, or whose own cannot be made, has none, unless they
    are asked for. Raises ValueError for its own where they cannot be made.
    """
    from bertsmith.model.sentence import SentenceConfig

    if run.to not in ("sentence-transformers", "onnx"):
        return None
    said = loaded.sentence or SentenceConfig()
    is_silent = loaded.sentence is None or bool(said.refusal)
    if is_silent and run.to == "onnx" and not run.pooling and not run.normalize:
        return None
    if not run.pooling:
        said.require()
    return replace(
        said,
        refusal="",
        pooling=run.pooling or said.pooling,
        is_normalized=run.normalize or said.is_normalized,
        max_tokens=said.max_tokens or loaded.config.max_position_embeddings,
    )


def _left_out(run: Convert, loaded: Loaded) -> list[str]:
    """What the format does not hold, a sentence each."""
    notes = []
    if run.to == "sentence-transformers" and loaded.model.objectives:
        notes.append("left out: the heads; sentence-transformers holds the encoder alone")
    if run.to == "hugging-face" and not loaded.model.objectives and not loaded.model.bert.pooler:
        notes.append(
            "this model has no pooler: transformers draws one at random; read no pooled row"
        )
    if run.to in ("hugging-face", "tensorflow") and loaded.sentence is not None:
        notes.append(f"left out: the pooling of sentence vectors; {run.to} does not hold it")
    prompts = loaded.sentence.advice_on_prompts if loaded.sentence is not None else ""
    if run.to != "sentence-transformers" and prompts:
        notes.append(f"left out: the prompts {prompts}")
    if (loaded.directory / CARD).is_file() and not _is_same_kind(run, loaded):
        notes.append(f"the model's own {CARD} tells of other files: it is a section of the new one")
    return notes


def _add_card(
    directory: Path, run: Convert, loaded: Loaded, export: Export, original: OriginalCard | None
) -> None:
    if original is not None and _is_same_kind(run, loaded):
        own = (loaded.directory / CARD).read_bytes()
        if run.language or run.license:
            own = original.with_facts(run.language, run.license).encode()
        (directory / CARD).write_bytes(own)
        return
    from bertsmith.checkpoints.card import Card
    from bertsmith.model.padded import outputs_of
    from bertsmith.runs.origin import origin_of

    origin, language = origin_of(loaded.directory)
    is_encoder_alone = run.to == "sentence-transformers"
    card = Card(
        name=run.push_to or str(run.out),
        is_on_hub=run.push_to is not None,
        format=run.to,
        config=loaded.config,
        objectives=() if is_encoder_alone else loaded.model.objectives,
        dtype=run.dtype,
        sentence=export.sentence,
        outputs=(run.outputs or outputs_of(loaded.model, export.sentence)),
        base_model=_hub_id(run.model, loaded.directory),
        language=run.language or (None if original and original.language else language),
        license=run.license,
        origin=origin,
        original=original,
    )
    write_text(directory / CARD, card.text())


def _is_same_kind(run: Convert, loaded: Loaded) -> bool:
    """Whether the model's own card is true of what is written: the same format and number type."""
    from bertsmith.checkpoints import places

    files = (places.WEIGHTS, places.WEIGHTS_INDEX, places.PICKLED, places.PICKLED_INDEX)
    config = loaded.directory / places.CONFIG
    if run.to != "hugging-face" or loaded.sentence is not None or not config.is_file():
        return False
    content = read_json(config)
    stored = content.get("dtype") or content.get("torch_dtype") or "float32"
    is_transformers = any((loaded.directory / name).is_file() for name in files)
    return is_transformers and str(stored).removeprefix("torch.") == run.dtype


def _hub_id(model: str, found: Path) -> str | None:
    """The Hub id of a model that was found in the Hub's cache; None for any other."""
    folder = f"models--{model.replace('/', '--')}"
    return model if folder in found.parts else None


def _pushed(directory: Path, repo_id: str, *, is_private: bool) -> str:
    """The address; where the upload fails, how to do it again without converting."""
    from bertsmith.checkpoints import hub

    try:
        return hub.push(directory, repo_id, is_private=is_private)
    except OSError as error:
        private = ["--private"] if is_private else []
        again = shlex.join(["hf", "upload", repo_id, str(directory), *private])
        raise OSError(f"{error}; {directory} is whole, upload it later with `{again}`") from error


def _report(run: Convert, loaded: Loaded, proof: str) -> None:
    files = sorted(file for file in run.out.rglob("*") if file.is_file())
    sizes = {str(file.relative_to(run.out)): file.stat().st_size for file in files}
    print(f"wrote {run.out}: {run.to}, {run.dtype}, {sum(sizes.values()) / 1e6:,.1f} MB")
    width = max(map(len, sizes))
    for name, size in sizes.items():
        print(f"  {name:<{width}}  {size:>13,} bytes")
    print(f"checked: {proof}")
    print(f"next: {_next(run, loaded)}")


def _next(run: Convert, loaded: Loaded) -> str:
    """What to type next, ready for a shell."""
    out = str(run.out)
    quoted = json.dumps(out)
    if run.to == "sentence-transformers":
        code = (
            f"from sentence_transformers import SentenceTransformer as S; "
            f'print(S({quoted}).encode(["A sentence."]).shape)'
        )
    elif run.to == "onnx":
        graph = json.dumps(f"{out}/model.onnx")
        code = (
            f"import onnxruntime; s = onnxruntime.InferenceSession({graph}); "
            f"print([(each.name, each.shape) for each in s.get_outputs()])"
        )
    elif "masked_lm" in loaded.model.objectives:
        text = "A sentence with one [MASK] in it."
        return shlex.join(["bertsmith", "predict", "fill-mask", "--model", out, text])
    else:
        code = f"import bertsmith; print(bertsmith.load({quoted}).model)"
    return shlex.join(["python", "-c", code])
