"""Parameter names: bertsmith's own <-> Hugging Face's, both ways.

One table names every parameter of a BERT and its heads. A row reads native name -> the Hugging Face
names that make it up, joined along the first axis in the order given (our one query-key-value
matrix is three there). What `transformers` has not, an LSTM's or a two-way model's, is named in its
manner. This file knows neither disks nor modules: only names, shapes and values.

Source: `transformers`' BertForPreTraining (state_dict); the oldest files on the Hub
write a LayerNorm's weight and bias as gamma and beta, as google-research/bert did; wrappers around
a model (`DataParallel`, sentence-transformers) put a prefix of their own before every name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertsmith.checkpoints.left_aside import LeftAside, listed
from bertsmith.checkpoints.misfits import MisfitError, Misshapen, Source
from bertsmith.checkpoints.sides import parted, without_side

_OUTSIDE_LAYERS: dict[str, tuple[str, ...]] = {
    "bert.embeddings.token.weight": ("bert.embeddings.word_embeddings.weight",),
    "bert.embeddings.segment.weight": ("bert.embeddings.token_type_embeddings.weight",),
    "bert.embeddings.position.weight": ("bert.embeddings.position_embeddings.weight",),
    "bert.embeddings.norm": ("bert.embeddings.LayerNorm",),
    "bert.pooler": ("bert.pooler.dense",),
    "masked_lm.dense": ("cls.predictions.transform.dense",),
    "masked_lm.norm": ("cls.predictions.transform.LayerNorm",),
    "masked_lm.bias": ("cls.predictions.bias",),
    "masked_lm.decoder": ("cls.predictions.decoder",),
    "next_sentence": ("cls.seq_relationship",),
    "task.classifier": ("classifier",),
    "task.qa_outputs": ("qa_outputs",),
}

_INSIDE_A_LAYER: dict[str, tuple[str, ...]] = {
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention.norm": ("attention.output.LayerNorm",),
    "feed_forward.up": ("intermediate.dense",),
    "feed_forward.down": ("output.dense",),
    "feed_forward.norm": ("output.LayerNorm",),
    "gates": ("lstm.gates",),
    "recurrent": ("lstm.recurrent",),
    "projection": ("lstm.projection",),
}

LM_HEAD = "cls.predictions."
"""What every name of the language-model head begins with, on disk."""
NEXT_SENTENCE_HEAD = "cls.seq_relationship."
"""What every name of the next-sentence head begins with, on disk."""
POOLER = "bert.pooler."
"""What every name of the pooler begins with, here and on disk."""
CLASSIFIER, SPAN_HEAD = "classifier", "qa_outputs"
"""The layer of a task head on disk; `task.` stands before it here."""
BILSTM = "bilstm."
"""What every name of a BiLSTM under such a layer begins with, on disk; no other library has one."""

LAYER_MIX = "layer_mix."
"""The same of the weights that a head has learned for the layers it reads."""

_NATIVE_LAYER = re.compile(r"bert\.layers\.(\d+)\.(.+)")
_WRAPPERS = re.compile(
    r"(module\.|0\.|auto_model\.|model\.)+(?=(bert|cls|classifier|qa_outputs|bilstm|layer_mix|embeddings|encoder|pooler)\.)"
)
_BARE = ("embeddings.", "encoder.", "pooler.")
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
TOKEN_EMBEDDING = "bert.embeddings.word_embeddings.weight"
"""The token embedding, on disk."""
DECODER = "cls.predictions.decoder.weight"
"""The decoder of the language-model head, on disk: most often a copy of the token embedding."""
_BIAS, _DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
_COPIES = {DECODER: TOKEN_EMBEDDING, _DECODER_BIAS: _BIAS}
_BUFFERS = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"}

HELD_ELSEWHERE = frozenset(_COPIES) | _BUFFERS
"""What a file may hold besides and nobody misses: copies of tied tensors, and position numbers."""


def hugging_face_names(native: str) -> tuple[str, ...]:
    """The names on disk whose tensors, joined along the first axis, are the parameter `native`.

    Raises KeyError for a name that is no parameter of a BERT.
    """
    if native.startswith((f"task.{BILSTM}", f"task.{LAYER_MIX}")):
        return (native.removeprefix("task."),)
    side, name = parted(native)
    layer = _NATIVE_LAYER.fullmatch(name)
    table, prefix = _OUTSIDE_LAYERS, side
    if layer:
        table, prefix, name = _INSIDE_A_LAYER, f"{side}bert.encoder.layer.{layer[1]}.", layer[2]
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias") or not {name, stem} & table.keys():
        raise KeyError(native)
    if name in table:
        return tuple(prefix + part for part in table[name])
    return tuple(f"{prefix}{part}.{kind}" for part in table[stem])


def to_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same parameters under the names on disk, contiguous, the query-key-value matrix in three.

    Raises ValueError naming every parameter that the table does not hold.
    """
    written: dict[str, Tensor] = {}
    unknown = []
    for native, tensor in state.items():
        try:
            names = hugging_face_names(native)
        except KeyError:
            unknown.append(native)
            continue
        for name, part in zip(names, tensor.detach().chunk(len(names)), strict=True):
            written[name] = part.contiguous()
    if DECODER in written:  # a decoder of its own has a bias of its own in transformers
        written[_DECODER_BIAS] = written[_BIAS].clone()
    if unknown:
        raise ValueError(
            f"no Hugging Face name for {listed(unknown)}: only the parameters of a PretrainModel "
            f"and of a task head can be saved as a BERT checkpoint"
        )
    return written


def from_hugging_face(
    state: Mapping[str, Tensor],
    expected: Mapping[str, Sequence[int]],
    source: Source | None = None,
) -> tuple[dict[str, Tensor], tuple[LeftAside, ...]]:
    """The parameters named in `expected` (native name -> shape), and what was left aside.

    `state` is what a checkpoint holds, its names passed through `modern_names` or not. Copies of
    tied tensors, position numbers and heads that `expected` does not ask for are harmless and left
    aside. Raises one MisfitError that names at once what is missing, mis-shaped, left over or no
    finite number.
    """
    is_decoder_own = "masked_lm.decoder.weight" in expected
    state = modern_names(state, is_tied=not is_decoder_own)
    overruled = _take_decoder_bias(state, is_decoder_own)
    native: dict[str, Tensor] = {}
    missing: list[str] = []
    misshapen: list[Misshapen] = []
    not_finite: list[str] = []
    for name, shape in expected.items():
        parts = hugging_face_names(name)
        part_shape = (shape[0] // len(parts), *shape[1:])
        missing += [part for part in parts if part not in state]
        found = [part for part in parts if part in state]
        misshapen += [fault for part in found for fault in _misfit(part, state[part], part_shape)]
        not_finite += [part for part in found if not _is_finite(state[part])]
        if not missing and not misshapen:
            native[name] = torch.cat([state[part] for part in parts])
    used = {part for name in expected for part in hugging_face_names(name)}
    left_over, left_aside = _left_over(state, used)
    if missing or misshapen or left_over or not_finite:
        raise MisfitError(
            source or Source(),
            missing=missing,
            misshapen=misshapen,
            unexpected=left_over,
            not_finite=not_finite,
        )
    return native, (*overruled, *left_aside)


def modern_names(state: Mapping[str, Tensor], *, is_tied: bool = True) -> dict[str, Tensor]:
    """The same tensors under today's names.

    Wrappers' prefixes are taken off, the encoder's put before, LayerNorm's gamma and beta called
    weight and bias; a tied tensor that only its copy's name holds gets its own name, the decoder's
    not where it is no copy (`is_tied` False). One that is there under both names keeps both. Raises
    ValueError where these differ.
    """
    named = {name: tensor for name, tensor in state.items() if _modern_name(name) == name}
    for name, tensor in state.items():
        modern = _modern_name(name)
        if modern == name:
            continue
        is_known = modern in named
        if is_known and not _are_equal(tensor, named[modern]):
            raise ValueError(
                f"{name} and {modern} are two names of one tensor, and their numbers differ: "
                f"nobody can tell which of them was trained; leave one out"
            )
        named[name if is_known else modern] = tensor
    for copy, original in _COPIES.items():
        is_copy = is_tied or copy != DECODER
        if is_copy and copy in named and original not in named:
            named[original] = named.pop(copy)
    return named


def _modern_name(name: str) -> str:
    name = _WRAPPERS.sub("", name, count=1) if _WRAPPERS.match(name) else name
    for old, new in _OLD_ENDINGS.items():
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return f"bert.{name}" if name.startswith(_BARE) else name


def _take_decoder_bias(state: dict[str, Tensor], is_decoder_own: bool) -> tuple[LeftAside, ...]:
    """Makes the decoder's own bias the head's; the head's is left aside where it differs.

    `transformers` adds the decoder's, tied or not. An equal one belongs to a decoder of its own.
    """
    own = state.get(_DECODER_BIAS)
    if own is None:
        return ()
    is_another = not _are_equal(own, state[_BIAS])
    if is_decoder_own or is_another:
        state[_BIAS] = state.pop(_DECODER_BIAS)
    reason = f"overruled by {_DECODER_BIAS}, which differs and is what transformers adds"
    return (LeftAside(reason=reason, names=(_BIAS,)),) if is_another else ()


def _misfit(name: str, tensor: Tensor, shape: Sequence[int]) -> list[Misshapen]:
    if tuple(tensor.shape) != tuple(shape):
        return [Misshapen(name, tuple(tensor.shape), tuple(shape))]
    if not tensor.is_floating_point():
        return [Misshapen(name, str(tensor.dtype), "floating-point numbers")]
    return []


def _is_finite(tensor: Tensor) -> bool:
    """By its sum, ten times as fast; only a sum that is not finite asks for a look at every one."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second.to(first.dtype))


def _left_over(
    state: Mapping[str, Tensor], used: set[str]
) -> tuple[list[str], tuple[LeftAside, ...]]:
    """Sorts the tensors nobody asked for into those that contradict the config, and the rest."""
    faults, unused, harmless = [], [], []
    for name in sorted(set(state) - used):
        original = state.get(_COPIES.get(name, ""))
        if original is not None and name in _COPIES:
            if not _are_equal(state[name], original):
                faults.append(f"{name}, which differs from {_COPIES[name]}")
            else:
                harmless.append(name)
        elif name in _BUFFERS or _modern_name(name) != name:
            harmless.append(name)
        elif without_side(name).startswith("bert.") and not name.startswith(POOLER):
            faults.append(name)
        else:
            unused.append(name)
    groups = (
        LeftAside(reason="not part of this model", names=tuple(unused)),
        LeftAside(reason="computed or held elsewhere", names=tuple(harmless)),
    )
    return faults, tuple(group for group in groups if group.names)
