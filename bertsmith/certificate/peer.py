"""Checks of a model beside `transformers`, where that is installed.

The peer computes on the same tensors, in float64. Where it departs from the original a row says so:
that is a known difference of its own, and no fault of the model.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.certificate.computed import numbers, predicted_rows
from bertsmith.certificate.golden.optimization import CUT
from bertsmith.certificate.golden.texts import ORDINARY, RARE
from bertsmith.certificate.originals import BIAS, DECODER_BIAS
from bertsmith.certificate.outputs import TOLERANCE
from bertsmith.certificate.rows import Numbers, Row, agreeing, compared, outcome, skipped
from bertsmith.certificate.subject import Subject
from bertsmith.checkpoints.names import DECODER, TOKEN_EMBEDDING

_NO_PEER = "transformers is not installed"


def rows(subject: Subject) -> Iterator[Row]:
    """Every check of this file."""
    is_installed = importlib.util.find_spec("transformers") is not None
    if not is_installed:
        for name in ("hidden states and logits", "tokens", "first weights"):
            yield skipped(name, _NO_PEER, "transformers")
        return
    yield from _outputs(subject)
    yield from _tokens(subject)
    yield first_weights()


def first_weights() -> Row:
    """How `transformers` draws first weights."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=2000, hidden_size=64, num_attention_heads=1, num_hidden_layers=1
    )
    with torch.random.fork_rng(devices=[]):  # the peer draws from the one generator of all
        torch.manual_seed(0)
        table = transformers.BertModel(config).embeddings.word_embeddings.weight.detach()
    largest = float(table.abs().max()) / config.initializer_range
    pad_row = float(table[config.pad_token_id].abs().max())
    return Row(
        name="first weights of transformers",
        status=outcome(largest <= CUT + 1e-6 and pad_row > 0.0),
        found=(
            f"largest {largest:.1f} deviations, [PAD] row {'zero' if pad_row == 0 else 'drawn'}"
        ),
        expected=f"cut at {CUT:g} deviations, [PAD] drawn like every row",
        reference="modeling.py, create_initializer",
        difference="peer",
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One output of both, None where the model has no such part."""

    name: str
    ours: Numbers | None
    theirs: Numbers | None
    without: str


def _outputs(subject: Subject) -> Iterator[Row]:
    if subject.loaded.config.direction == "right_to_left":
        yield skipped("hidden states and logits", "transformers has no such BERT", "transformers")
        return
    for part in _parts(subject):
        if part.ours is None or part.theirs is None:
            yield skipped(part.name, part.without, "transformers")
            continue
        yield compared(
            part.name,
            part.ours,
            part.theirs,
            tolerance=TOLERANCE,
            reference="transformers, BertForPreTraining",
            against="transformers, float64,",
        )


def _parts(subject: Subject) -> list[_Part]:
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
    own = subject.of_short
    is_left_to_right = subject.loaded.config.direction == "left_to_right"
    chosen = hidden[-1][torch.from_numpy(predicted_rows(subject.short))]
    return [
        _Part(
            name="hidden states",
            ours=np.stack(own.hidden_states),
            theirs=np.stack([numbers(state) for state in hidden]),
            without="",
        ),
        _Part(
            name="pooled vectors",
            ours=own.pooled,
            theirs=None if is_left_to_right else numbers(found.pooler_output),
            without="transformers pools the first token" if is_left_to_right else "no pooler",
        ),
        _Part(
            name="masked-LM logits",
            ours=own.words,
            theirs=numbers(peer.cls.predictions(chosen)),
            without="no language-model head",
        ),
        _Part(
            name="next-sentence logits",
            ours=own.pairs,
            theirs=None
            if is_left_to_right
            else numbers(peer.cls.seq_relationship(found.pooler_output)),
            without="no next-sentence head",
        ),
    ]


def _state(subject: Subject) -> dict[str, Tensor]:
    """The tensors on disk, every copy of a tied one in its place where the file leaves it out."""
    tensors = dict(subject.weights.tensors)
    if BIAS in tensors:
        tensors.setdefault(DECODER, tensors[TOKEN_EMBEDDING])
        tensors.setdefault(DECODER_BIAS, tensors[BIAS])
    return tensors


def _tokens(subject: Subject) -> Iterator[Row]:
    import transformers

    name, reference = "tokens of texts in many languages", "transformers, AutoTokenizer"
    try:
        # False, and not the default, which asks whether code beside the model shall run.
        peer = transformers.AutoTokenizer.from_pretrained(
            str(subject.tokenizer_directory), trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        yield skipped(name, f"no tokenizer that it reads ({_first_line(error)})", reference)
        return
    pair = ORDINARY["Korean"]
    found, expected = {}, {}
    for label, text in ORDINARY.items():
        theirs, ours = peer(text, pair), subject.tokenizer.encode(text, pair)
        expected[label] = (theirs["input_ids"], theirs["token_type_ids"])
        found[label] = (ours.ids.tolist(), ours.segments.tolist())
    yield agreeing(name, found, expected, reference=reference, against="transformers")
    apart = [
        rule
        for rule, texts in RARE.items()
        if any(
            peer(text, add_special_tokens=False)["input_ids"]
            != subject.tokenizer.encode(text, add_special_tokens=False).ids.tolist()
            for text in texts
        )
    ]
    yield Row(
        name="tokens of the rare texts",
        status=outcome(not apart),
        found=f"{len(apart)} of {len(RARE)} rules differ: {'; '.join(apart)}" if apart else "equal",
        expected="transformers",
        reference=reference,
        difference="peer",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
