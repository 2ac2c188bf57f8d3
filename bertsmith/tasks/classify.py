"""Texts and pairs of texts -> sequences to read; scores of sequences -> labels or a number.

One label of several, any number of labels, or a number (regression: STS-B). The first text is cut
at its end where one does not fit, the longer one of a pair; what is cut is counted.

Source: Devlin et al. 2018, section 4.1; google-research/bert run_classifier.py.

Legend: N texts, C labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bertsmith.data.items import Item, one_text, two_texts
from bertsmith.data.labelled import LabelledItems
from bertsmith.reading.counted import counted
from bertsmith.tasks import metrics
from bertsmith.tasks.label_lists import few, listed
from bertsmith.tasks.metrics import Scorer
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.floating]
Problem = Literal["single_label", "multi_label", "regression"]
Score = Callable[[FloatArray, FloatArray, int], float]

_MAJORITY_WARNED = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class TextExample:
    """A text, or a pair, and what is right."""

    texts: tuple[str, ...]
    """One or two."""
    labels: tuple[str, ...] | None
    """One; for several at once any number, for regression the number's digits. None: unknown."""
    place: str
    """`file:line`."""


@dataclass(frozen=True, kw_only=True)
class TextAnswer:
    """What a model says of a text."""

    labels: tuple[str, ...]
    """The likeliest; of several at once all above one half; of a regression its digits."""
    scores: tuple[float, ...]
    """The probability of each label in the scheme's order; of a regression its number."""


@dataclass(frozen=True)
class LabelScheme:
    """The labels of a task, in the order of the head's scores."""

    names: tuple[str, ...]
    """One without a meaning for regression."""
    problem: Problem = "single_label"

    @classmethod
    def of(cls, examples: Sequence[TextExample], problem: Problem = "single_label") -> LabelScheme:
        """The labels that stand in the examples, in ascending order, numbers by their value.

        Raises ValueError, with the place, for an example without a label, and for a single label.
        """
        names = {label for example in examples for label in _labels(example)}
        if problem == "regression":
            values = {_value(*labelled) for labelled in _placed(examples)}
            if len(values) < 2:
                raise ValueError(
                    f"{_from(examples)}, and no number but {values.pop():g}: there is nothing to "
                    f"learn"
                )
            return cls(("score",), problem)
        if len(names) < 2 and problem == "single_label":
            raise ValueError(
                f"{_from(examples)}, and no label but {''.join(names)!r}: there is nothing to "
                f"tell apart"
            )
        return cls(tuple(sorted(names, key=_by_value)), problem)

    def target(self, example: TextExample) -> npt.NDArray[np.number]:
        """(1,) label number or value, or (C,) ones and zeros.

        Raises ValueError, with the place, for labels that are not the scheme's.
        """
        labels = _labels(example)
        if self.problem == "multi_label":
            wanted = np.zeros(len(self.names), np.float32)
            wanted[[self._number(label, example.place) for label in labels]] = 1.0
            return wanted
        if len(labels) != 1:
            raise ValueError(f"{example.place}: {len(labels)} labels, expected one")
        if self.problem == "regression":
            return np.array([_value(labels[0], example.place)], np.float32)
        return np.array([self._number(labels[0], example.place)], np.int64)

    def answer(self, scores: FloatArray) -> TextAnswer:
        """What (C,) scores of a head say."""
        if self.problem == "regression":
            return TextAnswer(labels=(f"{scores[0]:.6g}",), scores=(float(scores[0]),))
        if self.problem == "multi_label":
            shares = 1.0 / (1.0 + np.exp(-scores.astype(np.float64)))
            labels = tuple(
                name for name, share in zip(self.names, shares, strict=True) if share > 0.5
            )
            return TextAnswer(labels=labels, scores=tuple(shares.tolist()))
        powers = np.exp(scores.astype(np.float64) - scores.max())
        return TextAnswer(
            labels=(self.names[int(scores.argmax())],),
            scores=tuple((powers / powers.sum()).tolist()),
        )

    def _number(self, label: str, place: str) -> int:
        if label not in self.names:
            raise ValueError(
                f"{place}: label {label!r} is none of the {len(self.names)} that were learned: "
                f"{', '.join(self.names):.200}"
            )
        return self.names.index(label)


def encode(
    examples: Sequence[TextExample], tokenizer: Tokenizer, scheme: LabelScheme, max_tokens: int
) -> LabelledItems:
    """`[CLS] text [SEP]` or `[CLS] first [SEP] second [SEP]`, with targets where labels are known.

    Raises ValueError, with the place, for a text without a word, or an unknown label.
    """
    encodings = iter(
        tokenizer.encode_batch(
            [text for example in examples for text in example.texts], add_special_tokens=False
        )
    )
    items: list[Item] = []
    for example in examples:
        sides = [next(encodings).ids for _ in example.texts]
        for text, ids in zip(example.texts, sides, strict=True):
            if not len(ids):
                raise ValueError(f"{example.place}: no word in the text {text!r:.60}")
        cls, sep = tokenizer.cls_id, tokenizer.sep_id
        if len(sides) == 1:
            items.append(one_text(*sides, limit=max_tokens, cls_id=cls, sep_id=sep, keep=(0, 0)))
        else:
            items.append(two_texts(*sides, limit=max_tokens, cls_id=cls, sep_id=sep))
    has_labels = all(example.labels is not None for example in examples)
    return LabelledItems(
        items=items,
        groups=np.arange(len(items)),
        rows=None,
        targets=[scheme.target(example) for example in examples] if has_labels else [],
    )


def scorer(
    examples: Sequence[TextExample],
    answers: Sequence[TextAnswer],
    scheme: LabelScheme,
    wanted: Sequence[str] = (),
) -> Scorer:
    """Gives the metrics asked for, by default all that the problem has.

    Raises ValueError for one that it has not.
    """
    gold = np.array([scheme.target(example) for example in examples])
    found = np.array([_predicted(answer, scheme) for answer in answers])
    known = _SCORES[scheme.problem]
    names = wanted or tuple(known)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{scheme.problem} is scored by {', '.join(known)}, not by {unknown[0]}")
    if scheme.problem != "multi_label":
        gold, found = gold[:, 0], found[:, 0]
    return lambda numbers: {
        name: known[name](found[numbers], gold[numbers], len(scheme.names)) for name in names
    }


def metric_names(problem: Problem) -> tuple[str, ...]:
    """What such a problem can be scored by, the usual one first."""
    return tuple(_SCORES[problem])


def balance(examples: Sequence[TextExample], scheme: LabelScheme) -> str:
    """A line on how often each label occurs, or the most frequent; it says if one is nearly all."""
    if scheme.problem == "regression":
        values = [_value(*labelled) for labelled in _placed(examples)]
        told = f"numbers from {min(values):g} to {max(values):g}, mean {np.mean(values):.3g}"
        return told if min(values) < max(values) else f"{told}; of one number nothing is correlated"
    counts = Counter(label for example in examples for label in _labels(example))
    told = listed({name: counts[name] for name in scheme.names}, len(examples))
    most = max(counts.values(), default=0) / len(examples)
    if scheme.problem == "single_label" and most > _MAJORITY_WARNED:
        told += (
            "; scores on examples of one label say nothing of the others"
            if len(counts) == 1
            else f"; always saying the most frequent would be right {most:.1%} of the time"
        )
    return told


def told_f1(scheme: LabelScheme, wanted: Sequence[str]) -> str:
    """Which label's F1 is told as `f1`; empty where it is not asked for, or is that of all."""
    is_asked_for = "f1" in (wanted or metric_names(scheme.problem))
    if scheme.problem != "single_label" or not is_asked_for:
        return ""
    return (
        f"f1 is that of the label {scheme.names[1]!r} alone, the second of {len(scheme.names)} in "
        f"ascending order; macro_f1 is the mean over all"
    )


def absent(examples: Sequence[TextExample], scheme: LabelScheme) -> str:
    """How many of the labels that were learned the examples lack; empty where they lack none."""
    found = {label for example in examples for label in _labels(example)}
    lacking = [name for name in scheme.names if name not in found]
    if scheme.problem == "regression" or not lacking:
        return ""
    return (
        f"{len(lacking):,} of the {len(scheme.names):,} labels that were learned "
        f"{'stands' if len(lacking) == 1 else 'stand'} in none of these examples: {few(lacking)}: "
        f"macro_f1 is the mean over those that stand there or in the answers"
    )


def _micro_f1(predicted: FloatArray, gold: FloatArray, num_labels: int) -> float:
    return metrics.binary_f1(predicted.ravel(), gold.ravel())


def _mean_f1(predicted: FloatArray, gold: FloatArray, num_labels: int) -> float:
    """Over the labels that stand on either side; 0 where none does."""
    pairs = zip(predicted.T, gold.T, strict=True)
    found = [metrics.binary_f1(*pair) for pair in pairs if any(side.any() for side in pair)]
    return float(np.mean(found)) if found else 0.0


_SCORES: dict[Problem, dict[str, Score]] = {
    "single_label": {
        "accuracy": lambda predicted, gold, _: metrics.accuracy(predicted, gold),
        "macro_f1": metrics.macro_f1,
        "f1": lambda predicted, gold, _: metrics.binary_f1(predicted, gold),
        "matthews": lambda predicted, gold, _: metrics.matthews(predicted, gold),
    },
    "multi_label": {
        "f1": _micro_f1,
        "macro_f1": _mean_f1,
        "exact": lambda predicted, gold, _: float(np.mean((predicted == gold).all(axis=1))),
    },
    "regression": {
        "pearson": lambda predicted, gold, _: metrics.pearson(predicted, gold),
        "spearman": lambda predicted, gold, _: metrics.spearman(predicted, gold),
    },
}
"""The first one of each chooses the best model."""


def _predicted(answer: TextAnswer, scheme: LabelScheme) -> FloatArray:
    """The answer in the form of a target."""
    if scheme.problem == "regression":
        return np.array(answer.scores)
    numbers = [scheme.names.index(label) for label in answer.labels]
    if scheme.problem == "single_label":
        return np.array(numbers, np.float64)
    return np.isin(np.arange(len(scheme.names)), numbers).astype(np.float64)


def _labels(example: TextExample) -> tuple[str, ...]:
    if example.labels is None:
        raise ValueError(f"{example.place}: no label")
    return example.labels


def _value(label: str, place: str) -> float:
    try:
        value = float(label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{place}: {label!r} is no number, and regression learns numbers")
    return value


def _placed(examples: Sequence[TextExample]) -> Iterator[tuple[str, str]]:
    """Every label, and where it stands."""
    return ((label, each.place) for each in examples for label in _labels(each))


def _from(examples: Sequence[TextExample]) -> str:
    return f"{counted(len(examples), 'example')} from {examples[0].place} on"


def _by_value(label: str) -> tuple[float, str]:
    try:
        value = float(label)
    except ValueError:
        value = math.inf
    return math.inf if math.isnan(value) else value, label  # which has no place among numbers
