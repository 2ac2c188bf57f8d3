"""A checkpoint's tensors and `config.json` -> the task head that they hold; and a head -> these.

A head is known by its tensors. What it reads stands in the `architectures` alone: `transformers`
calls the layer of a sequence, a token and a choice `classifier` alike. It builds no module and
reads no disk.

Source: `transformers`' BertForSequenceClassification, BertForTokenClassification,
BertForMultipleChoice and BertForQuestionAnswering; google-research/bert, run_classifier.py and
run_squad.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from bertsmith.checkpoints.head_parts import Below, below_to_json, find_below, parts_below
from bertsmith.checkpoints.left_aside import listed
from bertsmith.checkpoints.misfits import Source
from bertsmith.checkpoints.names import CLASSIFIER, POOLER, SPAN_HEAD
from bertsmith.model.config import BertConfig, Direction
from bertsmith.model.heads import TaskHead
from bertsmith.model.task import ProblemType, TaskHeadConfig, TaskKind, unnamed_labels

_ENDINGS: dict[TaskKind, str] = {
    "sequence_classification": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
    "multiple_choice": "ForMultipleChoice",
    "question_answering": "ForQuestionAnswering",
}
_LAYERS: dict[TaskKind, str] = {
    "sequence_classification": CLASSIFIER,
    "token_classification": CLASSIFIER,
    "multiple_choice": CLASSIFIER,
    "question_answering": SPAN_HEAD,
}
ORIGINAL_DROPOUT: dict[TaskKind, float] = {
    "sequence_classification": 0.1,
    "question_answering": 0.0,
}
"""What google-research/bert drops before the heads it has."""
_LEFT_TO_RIGHT, _LSTM = "BertsmithLeftToRight", "BertsmithLstm"
_FIRST_WORDS: dict[Direction, str] = {
    "bidirectional": "Bert",
    "left_to_right": _LEFT_TO_RIGHT,
    "right_to_left": "BertsmithRightToLeft",
    "two_way": "BertsmithTwoWay",
}
_ON_BILSTM, _ON_FEATURES = "BertsmithBiLstm", "BertsmithFeatures"
_KINDS: dict[str, TaskKind] = {
    f"{first}{ending}": kind
    for kind, ending in _ENDINGS.items()
    for first in (*_FIRST_WORDS.values(), _LSTM, _ON_BILSTM, _ON_FEATURES)
}
"""The classes that compute a head of this package, and what each is."""


@dataclass(frozen=True, kw_only=True)
class FoundHead:
    """What a checkpoint holds of a task head."""

    config: TaskHeadConfig | None = None
    """None where it holds none, or one that is left aside."""
    notes: tuple[str, ...] = ()
    """Why it is left aside, and what of its labels is not as the config says."""


def find_head(
    tensors: Mapping[str, Tensor],
    content: Mapping[str, object],
    config: BertConfig,
    source: Source,
) -> FoundHead:
    """The head by its tensors' Hugging Face names and the content of the config beside them.

    In a checkpoint of google-research/bert `classifier` is what run_classifier.py trains. Raises
    ValueError for a `classifier_dropout` that is none.
    """
    is_original = source.is_original
    layers = [
        layer for layer in (CLASSIFIER, SPAN_HEAD)
        if {f"{layer}.weight", f"{layer}.bias"} <= tensors.keys()
    ]  # fmt: skip
    if not layers:
        return FoundHead()
    kind = _kind(layers, content, is_original)
    if kind is None:
        return FoundHead(notes=(_untold(layers, content),))
    layer = _LAYERS[kind]
    try:
        below = find_below(tensors, content, config)
        _require_readable(kind, tensors, content, config, below)
    except ValueError as fault:
        return FoundHead(notes=(f"the task head {layer} is left aside: {fault}",))
    labels, label_notes = _labels(content, len(tensors[f"{layer}.bias"]))
    problem_type, problem_notes = _problem_type(content)
    found = TaskHeadConfig(
        kind=kind,
        labels=labels,
        problem_type=problem_type,
        dropout=ORIGINAL_DROPOUT[kind] if is_original else _dropout(kind, content, config, source),
        layers=below.layers,
        pooling=below.pooling,
        on_top=below.on_top,
        lstm_size=below.lstm_size,
        lstm_layers=below.lstm_layers,
    )
    return FoundHead(config=found, notes=(*label_notes, *problem_notes))


def head_state(head: TaskHead | None) -> dict[str, Tensor]:
    """Its parameters under the native names of `names`; none without a head."""
    if head is None:
        return {}
    layer = _LAYERS[head.config.kind]
    state = {f"task.{layer}.{name}": each for name, each in head.scores.state_dict().items()}
    for prefix, part in parts_below(head).items():
        below = part.state_dict()
        state |= {f"task.{prefix}{name}": each for name, each in below.items()}
    return state


def fill_head(head: TaskHead | None, state: Mapping[str, Tensor]) -> None:
    """Puts the tensors of `state` into a head, by their native names; it is then to be read."""
    if head is not None:
        layer = _LAYERS[head.config.kind]
        own = {name: state[f"task.{layer}.{name}"] for name in head.scores.state_dict()}
        head.scores.load_state_dict(own, assign=True)
        for prefix, part in parts_below(head).items():
            below = {name: state[f"task.{prefix}{name}"] for name in part.state_dict()}
            part.load_state_dict(below, assign=True)
        head.eval()


def first_word(config: BertConfig) -> str:
    """What the class of an encoder is called; the ending names its head."""
    return _FIRST_WORDS[config.direction] if config.layer_kind == "transformer" else _LSTM


def architecture_of(head: TaskHeadConfig, config: BertConfig) -> str:
    """The class that computes the same; a name that only this package knows where there is none.

    Of a left-to-right BERT `transformers` pools the first token, which has seen only itself.
    """
    if head.additions:
        first = _ON_BILSTM if head.on_top == "bilstm" else _ON_FEATURES
        return f"{first}{_ENDINGS[head.kind]}"
    is_known_there = first_word(config) == _LEFT_TO_RIGHT and head.reads_tokens
    first = "Bert" if is_known_there else first_word(config)
    return f"{first}{_ENDINGS[head.kind]}"


def head_to_json(head: TaskHeadConfig) -> dict[str, object]:
    """What `config.json` says of a head besides its architecture."""
    content: dict[str, object] = {
        "id2label": {str(number): label for number, label in enumerate(head.labels)},
        "label2id": {label: number for number, label in enumerate(head.labels)},
    }
    if head.problem_type is not None:
        content["problem_type"] = head.problem_type
    if head.kind != "question_answering":
        content["classifier_dropout"] = head.dropout
    return content | below_to_json(head)


def _kind(layers: list[str], content: Mapping[str, object], is_original: bool) -> TaskKind | None:
    """By the architectures; without a word from these, where the tensors alone tell.

    A class of another name may compute more than its tensors' names say, as one with a CRF does.
    """
    possible = [kind for kind, layer in _LAYERS.items() if layer in layers]
    names = _architectures(content)
    said = [kind for name in names if (kind := _KINDS.get(name))]
    if said:
        return said[0] if said[0] in possible else None
    if is_original and layers == [CLASSIFIER]:
        return "sequence_classification"
    is_told = layers == [SPAN_HEAD] and (is_original or not names)
    return "question_answering" if is_told else None


def _untold(layers: list[str], content: Mapping[str, object]) -> str:
    said = ", ".join(_architectures(content)) or "nothing"
    known = ", ".join(f"Bert{ending}" for ending in _ENDINGS.values())
    return (
        f"the task head {' and '.join(layers)} is left aside: what it reads cannot be told, since "
        f"the config's architectures say {said}; write one of "
        f"{known} there if it computes the same"
    )


def _architectures(content: Mapping[str, object]) -> list[str]:
    said = content.get("architectures")
    return [str(name) for name in said] if isinstance(said, list) else []


def _require_readable(
    kind: TaskKind,
    tensors: Mapping[str, Tensor],
    content: Mapping[str, object],
    config: BertConfig,
    below: Below,
) -> None:
    """Raises ValueError for tensors of other shapes, and where nothing here gives what is read."""
    layer = _LAYERS[kind]
    weight, bias = tensors[f"{layer}.weight"], tensors[f"{layer}.bias"]
    rows = {"multiple_choice": 1, "question_answering": 2}.get(kind, max(1, bias.numel()))
    if (tuple(weight.shape), tuple(bias.shape)) != ((rows, below.width), (rows,)):
        raise ValueError(
            f"its shapes are {tuple(weight.shape)} and {tuple(bias.shape)}, expected "
            f"{(rows, below.width)} and {(rows,)} for {kind.replace('_', ' ')}"
        )
    if not (weight.is_floating_point() and bias.is_floating_point()):
        raise ValueError("no real numbers")
    is_of_tokens = kind in ("token_classification", "question_answering")
    if is_of_tokens or below.on_top != "nothing" or below.pooling != "pooler":
        return
    if not any(name.startswith(POOLER) for name in tensors):
        raise ValueError("it reads the pooled vector, and the file holds no pooler")
    is_own = any(name.startswith((_LEFT_TO_RIGHT, _LSTM)) for name in _architectures(content))
    if config.direction == "left_to_right" and not is_own:
        raise ValueError(
            "it reads the first token of a left-to-right model, which has seen only itself; such a "
            "model pools its last token here"
        )


def _labels(
    content: Mapping[str, object], num_labels: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels in order, and a note where those of the config are not as many."""
    named, numbered = content.get("id2label"), content.get("label2id")
    if not isinstance(named, dict):
        pairs = numbered.items() if isinstance(numbered, dict) else ()
        named = {number: label for label, number in pairs}
    found = {str(number): str(label) for number, label in named.items()}
    order = [str(number) for number in range(num_labels)]
    unnamed = unnamed_labels(num_labels)
    if found.keys() == set(order):
        return tuple(found[number] for number in order), ()
    if set(found.values()) <= set(unnamed_labels(len(found))):
        return unnamed, ()
    note = (
        f"the config names {len(found)} labels ({listed(found.values())}) and the task head has "
        f"{num_labels} scores: they are called {listed(unnamed)}"
    )
    return unnamed, (note,)


def _problem_type(content: Mapping[str, object]) -> tuple[ProblemType | None, tuple[str, ...]]:
    said, known = content.get("problem_type"), get_args(ProblemType)
    if said is None or said in known:
        return said, ()  # type: ignore[return-value]
    return None, (f"problem_type {said!r} is not kept: it is none of {', '.join(known)}",)


def _dropout(
    kind: TaskKind, content: Mapping[str, object], config: BertConfig, source: Source
) -> float:
    """As `transformers` takes it: the classifier's own, else the encoder's, none before spans."""
    if kind == "question_answering":
        return 0.0
    said = content.get("classifier_dropout")
    if said is None:
        return config.hidden_dropout_prob
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not 0.0 <= said < 1.0:
        raise ValueError(
            f"{source.where}: classifier_dropout in its {source.config} is {said!r}, expected a "
            f"share from 0 to below 1: correct it there"
        )
    return float(said)
