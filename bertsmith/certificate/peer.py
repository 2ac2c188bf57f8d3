"""Checks of a model beside `transformers`, where that is installed.

The peer computes on the same tensors, in float64. Where it departs from the original a row says so:
that is a known difference of its own, and no fault of the model. Where it raises, being too old or
broken, the row is skipped with its reason; what this installation raises is not caught here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from bertsmith.certificate.comparisons import Numbers, compared
from bertsmith.certificate.computed import Outputs, numbers, predicted_rows
from bertsmith.certificate.golden.optimization import CUT
from bertsmith.certificate.golden.texts import ORDINARY, RARE
from bertsmith.certificate.originals import BIAS, DECODER_BIAS
from bertsmith.certificate.outputs import TOLERANCE
from bertsmith.certificate.rows import Row, agreeing, outcome, skipped
from bertsmith.certificate.subject import Subject
from bertsmith.checkpoints.names import DECODER, TOKEN_EMBEDDING

_NO_PEER = "transformers is not installed"
_POOLED_ELSEWHERE = (
    "transformers pools the first token, which has seen only itself in a left-to-right model; this "
    "one pools the last"
)

Answer = TypeVar("Answer")


class _PeerError(Exception):
    """The peer raised: it has no answer, and the reason why."""


def outputs(subject: Subject) -> list[Row]:
    """Hidden states, pooled vectors and logits."""
    name = "hidden states and logits"
    if not _is_installed():
        return [skipped(name, _NO_PEER, "transformers")]
    if subject.loaded.config.direction == "right_to_left":
        return [skipped(name, "transformers has no right-to-left BERT", "transformers")]
    own = subject.of_short
    try:
        parts = _asked(lambda: _parts(subject, own))
    except _PeerError as error:
        return [skipped(name, str(error), "transformers")]
    return [_beside(part) for part in parts]


def tokens(subject: Subject) -> list[Row]:
    """Ordinary texts, and the texts where the peer has rules of its own."""
    if not _is_installed():
        return [skipped("tokens", _NO_PEER, "transformers")]
    name, reference = "tokens of texts in many languages", "transformers, AutoTokenizer"
    found, rare_found = _own_tokens(subject)
    try:
        expected, rare_expected = _asked(lambda: _peer_tokens(subject))
    except _PeerError as error:
        return [skipped(name, f"no tokenizer that it reads ({error})", reference)]
    apart = [rule for rule, ids in rare_expected.items() if rare_found[rule] != ids]
    return [
        agreeing(name, found, expected, reference=reference, against="transformers"),
        Row(
            name="tokens of the rare texts",
            status=outcome(not apart),
            found=f"{len(apart)} of {len(RARE)} rules differ: {'; '.join(apart)}"
            if apart
            else "equal",
            expected="transformers",
            reference=reference,
            difference="peer",
        ),
    ]


def first_weights(_: Subject) -> Row:
    """How `transformers` draws first weights."""
    name = "first weights of transformers"
    if not _is_installed():
        return skipped("first weights", _NO_PEER, "transformers")
    try:
        largest, pad_row = _asked(_drawn)
    except _PeerError as error:
        return skipped(name, str(error), "transformers")
    return Row(
        name=name,
        status=outcome(largest <= CUT + 1e-6 and pad_row > 0.0),
        found=(
            f"largest {largest:.1f} deviations, [PAD] row {'zero' if pad_row == 0 else 'drawn'}"
        ),
        expected=f"cut at {CUT:g} deviations, [PAD] drawn like every row",
        reference="modeling.py, create_initializer",
        difference="peer",
    )


CHECKS: tuple[Callable[[Subject], Row | list[Row]], ...] = (outputs, tokens, first_weights)


def _is_installed() -> bool:
    return importlib.util.find_spec("transformers") is not None


def _asked(answer: Callable[[], Answer]) -> Answer:
    """What the peer answers. Raises _PeerError, its message one line, for whatever it raises."""
    try:
        return answer()
    except Exception as error:  # whatever is broken in the peer is no fault of the model
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise _PeerError(f"{type(error).__name__}: {first_line}") from error


def _drawn() -> tuple[float, float]:
    """The largest of the peer's first weights in deviations, and the largest in [PAD]'s row."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=2000, hidden_size=64, num_attention_heads=1, num_hidden_layers=1
    )
    with torch.random.fork_rng(devices=[]):  # the peer draws from the one generator of all
        torch.manual_seed(0)
        table = transformers.BertModel(config).embeddings.word_embeddings.weight.detach()
    largest = float(table.abs().max()) / config.initializer_range
    return largest, float(table[config.pad_token_id].abs().max())


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One output of both, None where the model has no such part."""

    name: str
    ours: Numbers | None
    theirs: Callable[[], Numbers] | None
    without: str


def _beside(part: _Part) -> Row:
    if part.ours is None or part.theirs is None:
        return skipped(part.name, part.without, "transformers")
    theirs = part.theirs
    try:
        expected = _asked(theirs)
    except _PeerError as error:
        return skipped(part.name, str(error), "transformers")
    return compared(
        part.name,
        part.ours,
        expected,
        tolerance=TOLERANCE,
        reference="transformers, BertForPreTraining",
        against="transformers, float64,",
    )


def _parts(subject: Subject, own: Outputs) -> list[_Part]:
    import transformers

    content = {**subject.weights.config, "model_type": "bert"}
    content["tie_word_embeddings"] = subject.loaded.config.tie_word_embeddings
    config = transformers.BertConfig.from_dict(content)
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        peer = transformers.BertForPreTraining(config).double()
    peer.train(False)
    peer.load_state_dict(_state(subject), strict=False)
    input_ids, mask, segments = map(torch.from_numpy, subject.short.to_padded())
    found = peer.bert(
        input_ids=input_ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True
    )
    hidden = [state[mask.bool()] for state in found.hidden_states]
    is_left_to_right = subject.loaded.config.direction == "left_to_right"

    def reason_of_none(part: str, ours: Numbers | None) -> str:
        return f"this {subject.kind} has no {part}" if ours is None else _POOLED_ELSEWHERE

    chosen = hidden[-1][torch.from_numpy(predicted_rows(subject.short))]
    return [
        _Part(
            name="hidden states",
            ours=np.stack(own.hidden_states),
            theirs=lambda: np.stack([numbers(state) for state in hidden]),
            without="",
        ),
        _Part(
            name="pooled vectors",
            ours=own.pooled,
            theirs=None if is_left_to_right else lambda: numbers(found.pooler_output),
            without=reason_of_none("pooler", own.pooled),
        ),
        _Part(
            name="language-model logits",
            ours=own.words,
            theirs=lambda: numbers(peer.cls.predictions(chosen)),
            without=f"this {subject.kind} has no language-model head",
        ),
        _Part(
            name="next-sentence logits",
            ours=own.pairs,
            theirs=None
            if is_left_to_right
            else lambda: numbers(peer.cls.seq_relationship(found.pooler_output)),
            without=reason_of_none("next-sentence head", own.pairs),
        ),
    ]


def _state(subject: Subject) -> dict[str, Tensor]:
    """The tensors on disk, every copy of a tied one in its place where the file leaves it out."""
    tensors = dict(subject.weights.tensors)
    if BIAS in tensors:
        tensors.setdefault(DECODER, tensors[TOKEN_EMBEDDING])
        tensors.setdefault(DECODER_BIAS, tensors[BIAS])
    return tensors


_Tokens = tuple[dict[str, object], dict[str, list[list[int]]]]


def _own_tokens(subject: Subject) -> _Tokens:
    """Ids and segments of ordinary texts, each in a pair; ids of the rare texts, rule by rule."""
    tokenizer, pair = subject.tokenizer, ORDINARY["Korean"]
    pairs = {label: tokenizer.encode(text, pair) for label, text in ORDINARY.items()}
    return {label: (each.ids.tolist(), each.segments.tolist()) for label, each in pairs.items()}, {
        rule: [tokenizer.encode(text, add_special_tokens=False).ids.tolist() for text in texts]
        for rule, texts in RARE.items()
    }


def _peer_tokens(subject: Subject) -> _Tokens:
    """The same, by the peer."""
    import transformers

    # False, and not the default, which asks whether code beside the model shall run.
    peer = transformers.AutoTokenizer.from_pretrained(
        str(subject.tokenizer_directory), trust_remote_code=False
    )
    pairs = {label: peer(text, ORDINARY["Korean"]) for label, text in ORDINARY.items()}
    return {label: (each["input_ids"], each["token_type_ids"]) for label, each in pairs.items()}, {
        rule: [peer(text, add_special_tokens=False)["input_ids"] for text in texts]
        for rule, texts in RARE.items()
    }
