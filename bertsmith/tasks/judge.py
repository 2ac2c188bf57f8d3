"""Examples, the scores of a head and the answers made of them -> what there is to say of these.

Legend: N examples, M answers, W words, C labels, K choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks import metrics
from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.entities import entity_scores
from bertsmith.tasks.judge_spans import judged_spans
from bertsmith.tasks.judged import (
    MOST_MISTAKES,
    Certainty,
    Confusion,
    Groups,
    Judged,
    Mistake,
    Numbers,
)
from bertsmith.tasks.tag import EncodedWords, probabilities
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Classification, Encoded, MultipleChoice, SpanAnswering, Tagging

FloatArray = npt.NDArray[np.floating]

_BETWEEN_TEXTS = " ||| "
_LABELS_OF_PARTS = ("precision", "recall", "f1")


def judged(
    task: object,
    examples: Sequence[Any],
    encoded: Encoded,
    scores: Sequence[FloatArray],
    answers: Sequence[Any],
) -> Judged:
    """What there is to say of the answers to labelled examples; nothing of a task of one's own."""
    match task:
        case Classification(scheme=scheme) if scheme.problem == "regression":
            return judged_numbers(examples, answers)
        case Classification(scheme=scheme) if scheme.problem == "multi_label":
            return judged_label_sets(examples, answers, scheme)
        case Classification(scheme=scheme):
            return judged_labels(examples, answers, scheme)
        case MultipleChoice():
            return judged_choices(examples, answers)
        case Tagging(scheme=scheme):
            assert isinstance(encoded, EncodedWords)
            return judged_tags(examples, encoded, scores, answers, scheme)
        case SpanAnswering(version=version):
            return judged_spans(examples, answers, version)
        case _:
            return Judged()


def judged_labels(
    examples: Sequence[TextExample], answers: Sequence[TextAnswer], scheme: LabelScheme
) -> Judged:
    """One label of several."""
    gold = np.array([scheme.target(example)[0] for example in examples], np.int64)
    found = np.array([scheme.names.index(answer.labels[0]) for answer in answers])
    sure = np.array([max(answer.scores) for answer in answers])
    table = metrics.confusion(found, gold, len(scheme.names))
    mistakes = [
        _text_mistake(examples[at], answers[at].labels, float(sure[at]))
        for at in _surest_wrong(sure, found == gold)
    ]
    return Judged(
        mistakes=tuple(mistakes),
        num_mistakes=int((found != gold).sum()),
        groups=(_by_label(scheme.names, table.diagonal(), table.sum(axis=1), table.sum(axis=0)),),
        certainty=Certainty(of="texts", probabilities=sure, is_right=found == gold),
        confusion=Confusion(labels=scheme.names, counts=table),
    )


def judged_label_sets(
    examples: Sequence[TextExample], answers: Sequence[TextAnswer], scheme: LabelScheme
) -> Judged:
    """Any number of labels; each label of each text is an answer of its own, yes or no."""
    gold = np.array([scheme.target(example) for example in examples]) > 0.5
    shares = np.array([answer.scores for answer in answers])
    found = shares > 0.5
    sure = np.where(found, shares, 1.0 - shares)
    worst = np.where(found == gold, 0.0, sure).max(axis=1)
    is_right = (found == gold).all(axis=1)
    right = (found & gold).sum(axis=0)
    return Judged(
        mistakes=tuple(
            _text_mistake(examples[at], answers[at].labels, float(worst[at]))
            for at in _surest_wrong(worst, is_right)
        ),
        num_mistakes=int((~is_right).sum()),
        groups=(_by_label(scheme.names, right, gold.sum(axis=0), found.sum(axis=0)),),
        certainty=Certainty(
            of="labels of texts", probabilities=sure.ravel(), is_right=(found == gold).ravel()
        ),
    )


def judged_numbers(examples: Sequence[TextExample], answers: Sequence[TextAnswer]) -> Judged:
    """Regression: nothing is right or wrong there, only near or far."""
    gold = np.array([float(label) for each in examples for label in each.labels or ()])
    found = np.array([answer.scores[0] for answer in answers])
    order = np.argsort(-np.abs(found - gold), kind="stable")[:MOST_MISTAKES]
    return Judged(
        mistakes=tuple(_text_mistake(examples[at], answers[at].labels, None) for at in order),
        num_mistakes=len(gold),
        numbers=Numbers(predicted=found, right=gold),
    )


def judged_choices(examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> Judged:
    """One of the choices of each question."""
    is_right = np.array(
        [answer.choice == each.label for each, answer in zip(examples, answers, strict=True)]
    )
    sure = np.array([max(answer.probabilities) for answer in answers])
    mistakes = []
    for at in _surest_wrong(sure, is_right):
        example, label = examples[at], examples[at].label
        assert label is not None
        mistakes.append(
            Mistake(
                place=example.place,
                asked=example.text,
                right=example.choices[label],
                answer=example.choices[answers[at].choice],
                probability=float(sure[at]),
            )
        )
    return Judged(
        mistakes=tuple(mistakes),
        num_mistakes=int((~is_right).sum()),
        certainty=Certainty(of="questions", probabilities=sure, is_right=is_right),
    )


def judged_tags(
    sentences: Sequence[TaggedSentence],
    encoded: EncodedWords,
    scores: Sequence[FloatArray],
    tags: Sequence[Sequence[str]],
    scheme: TagScheme,
) -> Judged:
    """A tag for every word; how sure is known of those that have a token of their own."""
    gold = [tag for sentence in sentences for tag in scheme.tags_of(sentence)]
    found = [tag for of_sentence in tags for tag in of_sentence]
    sure = np.asarray(probabilities(encoded, scores), np.float64)
    is_scored = ~np.isnan(sure)
    is_right = np.array([ours == theirs for ours, theirs in zip(found, gold, strict=True)])
    firsts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    mistakes = []
    for at in _surest_wrong(sure, is_right | ~is_scored):
        number = int(np.searchsorted(firsts, at, side="right")) - 1
        mistakes.append(
            Mistake(
                place=sentences[number].place,
                asked=_marked(sentences[number], int(at - firsts[number]), scheme),
                right=gold[at],
                answer=found[at],
                probability=float(sure[at]),
            )
        )
    is_few = not scheme.is_of_entities
    table = _confusion(found, gold, scheme.labels) if is_few else None
    return Judged(
        mistakes=tuple(mistakes),
        num_mistakes=int((~is_right).sum()),
        groups=(_by_entity(sentences, tags, scheme),) if scheme.is_of_entities else (),
        certainty=Certainty(
            of="words", probabilities=sure[is_scored], is_right=is_right[is_scored]
        ),
        confusion=table,
    )


def _surest_wrong(sure: npt.NDArray[np.float64], is_right: npt.NDArray[np.bool_]) -> list[int]:
    wrong = np.flatnonzero(~is_right)
    order = wrong[np.argsort(-sure[wrong], kind="stable")]
    return [int(at) for at in order[:MOST_MISTAKES]]


def _text_mistake(
    example: TextExample, labels: Sequence[str], probability: float | None
) -> Mistake:
    return Mistake(
        place=example.place,
        asked=_BETWEEN_TEXTS.join(example.texts),
        right=", ".join(example.labels or ()),
        answer=", ".join(labels),
        probability=probability,
    )


def _by_label(
    names: Sequence[str],
    right: npt.NDArray[np.integer],
    gold: npt.NDArray[np.integer],
    found: npt.NDArray[np.integer],
) -> Groups:
    rows = []
    for name, *counts in zip(names, right.tolist(), gold.tolist(), found.tolist(), strict=True):
        hits, wanted, given = counts
        values = (hits / max(1, given), hits / max(1, wanted), 2 * hits / max(1, given + wanted))
        rows.append((name, wanted, values))
    return Groups(name="label", metrics=_LABELS_OF_PARTS, rows=tuple(rows))


def _by_entity(
    sentences: Sequence[TaggedSentence], tags: Sequence[Sequence[str]], scheme: TagScheme
) -> Groups:
    found = entity_scores(tags, [scheme.tags_of(sentence) for sentence in sentences])
    rows = [
        (kind or "all", each.num_gold, (each.precision, each.recall, each.f1))
        for kind, each in sorted(found.items())
    ]
    return Groups(name="entity", metrics=_LABELS_OF_PARTS, rows=tuple(rows))


def _confusion(found: Sequence[str], gold: Sequence[str], labels: Sequence[str]) -> Confusion:
    numbers = {label: number for number, label in enumerate(labels)}
    counts = metrics.confusion(
        [numbers[tag] for tag in found], [numbers[tag] for tag in gold], len(labels)
    )
    return Confusion(labels=tuple(labels), counts=counts)


def _marked(sentence: TaggedSentence, at: int, scheme: TagScheme) -> str:
    """The sentence with one of its words marked."""
    words = [f">>{word}<<" if n == at else word for n, word in enumerate(sentence.words)]
    return ("" if scheme.is_by_character else " ").join(words)
