"""A model's answers to 200 fixed cloze sentences, beside n-gram models of the same text.

    python -m benchmarks.cloze --model mini-en --corpus CORPUS
    python -m benchmarks.cloze --model mini-ko --corpus CORPUS --language ko

`cloze/en.jsonl` and `cloze/ko.jsonl` hold a sentence a line, written for this benchmark: its text
with one `[MASK]`, up to three accepted answers, and what it asks for: grammar, collocation,
knowledge, both_sides (the right side decides) or discourse (another clause or sentence decides).

`questions` says how they are put to a vocabulary, and which are left out: figures of different
vocabularies are comparable only with the printed counts beside them.

Reported: top-1 and top-5, in all and by kind, of the model and of the n-gram models of the corpus's
training split (`ngrams`); and the model on the held-out split, with a fixed key: perplexity on
masked tokens and next-sentence accuracy. `perplexity` has the n-gram models' beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from benchmarks.machine import append_row
from benchmarks.ngrams import SYSTEMS, count
from benchmarks.perplexity import examples
from benchmarks.questions import KINDS, Question, pose, read_clozes
from bertsmith.batch import PackedBatch
from bertsmith.corpus.store import Corpus
from bertsmith.data.items import one_text
from bertsmith.inference import Predictor
from bertsmith.model.stream import Stream
from bertsmith.runs.evaluation import Evaluation, evaluate

Language = Literal["en", "ko"]

FOLDER = Path(__file__).parent / "cloze"
TOP = 5
ORDER = ("model", *SYSTEMS)


@dataclass(frozen=True, kw_only=True)
class Score:
    """Right answers among some of the questions."""

    questions: int
    top_1: dict[str, float]
    """For every system: share of questions whose likeliest token is accepted."""
    top_5: dict[str, float]
    """For every system: share with an accepted token among the five likeliest."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one run found."""

    corpus: str
    train_tokens: int
    language: str
    questions: int
    questions_left_out: int
    answers_left_out: int
    scores: dict[str, Score]
    held_out: dict[str, float]
    held_out_sequences: int
    counting_seconds: float


def main() -> None:
    """Asks all questions, prints the table and appends one row."""
    options = _options()
    predictor = Predictor.load(options.model, precision="fp32")
    row = measure(predictor, options.corpus, options.language, options.sequences)
    print(table(row))
    append_row("cloze", {"model": Path(options.model).name, **asdict(row)})


def measure(predictor: Predictor, corpus: Path, language: Language, num_sequences: int) -> Row:
    """One row: the model and the n-gram models of the corpus on the language's questions."""
    predictor.abilities.require("masked_lm")
    train, tokenizer = Corpus.open(corpus, "train"), predictor.tokenizer
    train.check_vocabulary(tokenizer)
    clozes = read_clozes(FOLDER / f"{language}.jsonl")
    posed = [pose(cloze, tokenizer, language) for cloze in clozes]
    questions = [question for question in posed if question is not None]
    began = time.perf_counter()
    answers = baseline_answers(train, questions, tokenizer.special_ids)
    counting_seconds = time.perf_counter() - began
    answers["model"] = model_answers(predictor, questions)
    evaluation = held_out(predictor, corpus, num_sequences)
    return Row(
        corpus=corpus.resolve().name,
        language=language,
        questions=len(questions),
        questions_left_out=len(clozes) - len(questions),
        answers_left_out=sum(question.num_left_out for question in questions),
        scores=scores(questions, answers),
        held_out={} if evaluation is None else evaluation.row(),
        held_out_sequences=0 if evaluation is None else evaluation.sequences,
        counting_seconds=round(counting_seconds, 1),
        train_tokens=train.num_tokens,
    )


def baseline_answers(
    train: Corpus, questions: Sequence[Question], special_ids: frozenset[int]
) -> dict[str, list[list[int]]]:
    """For each n-gram model and question: its TOP likeliest tokens."""
    windows = np.array([question.window for question in questions], dtype=np.int64)
    baselines = count(train, windows, special_ids)
    answers: dict[str, list[list[int]]] = {system: [] for system in SYSTEMS}
    for number in range(len(questions)):
        for system, probabilities in baselines.probabilities(number).items():
            best = np.argsort(-probabilities, kind="stable")[:TOP]
            answers[system].append(best.tolist())
    return answers


def model_answers(predictor: Predictor, questions: Sequence[Question]) -> list[list[int]]:
    """For every question: the model's TOP likeliest tokens."""
    model, tokenizer = predictor.model, predictor.tokenizer
    items = [
        one_text(
            question.token_ids,
            limit=predictor.limit,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            keep=(question.place, question.place + 1),
        )
        for question in questions
    ]

    def answer(_: list[int], packed: PackedBatch) -> list[list[int]]:
        stream = Stream.of(packed, device=predictor.device)
        rows = torch.nonzero(stream.token_ids == tokenizer.mask_id).flatten()  # (M,)
        hidden = model.bert(stream).index_select(0, rows)  # (M, H)
        logits = model.masked_lm(hidden, model.bert.token_embedding).float()  # (M, V)
        logits = logits[:, : tokenizer.vocab_size]
        best: list[list[int]] = logits.topk(TOP, dim=1).indices.tolist()
        return best

    return predictor.in_order(items, answer)


def scores(
    questions: Sequence[Question], answers: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, Score]:
    """For `all` and for every kind: how many questions, and every system's shares of them."""
    chosen = {"all": range(len(questions))} | {
        kind: [n for n, question in enumerate(questions) if question.kind == kind] for kind in KINDS
    }
    return {
        name: Score(
            questions=len(numbers),
            top_1={
                system: _share(questions, given, numbers, 1) for system, given in answers.items()
            },
            top_5={
                system: _share(questions, given, numbers, TOP) for system, given in answers.items()
            },
        )
        for name, numbers in chosen.items()
    }


def held_out(predictor: Predictor, corpus: Path, num_sequences: int) -> Evaluation | None:
    """The model on the corpus's held-out documents; None where too few were held out."""
    batches = examples(predictor, corpus, num_sequences)
    return evaluate(predictor.model, batches) if batches else None


def table(row: Row) -> str:
    """The row for a person."""
    left_out = f"{row.questions_left_out} left out, as no accepted answer is one token here"
    lines = [
        f"{row.language}: {row.questions} questions ({left_out}; {row.answers_left_out} further "
        f"answers left out), n-grams of {row.train_tokens:,} tokens in {row.counting_seconds} s",
        f"{'top-1 / top-5':<14} {'':>4}" + "".join(f"{system:>21}" for system in ORDER),
    ]
    for name, score in row.scores.items():
        shares = (f"{score.top_1[system]:.1%} / {score.top_5[system]:.1%}" for system in ORDER)
        lines.append(f"{name:<14} {score.questions:>4}" + "".join(f"{each:>21}" for each in shares))
    lines.append(
        f"held out, {row.held_out_sequences:,} sequences: "
        + (", ".join(f"{name} {value:.4f}" for name, value in row.held_out.items()) or "nothing")
    )
    return "\n".join(lines)


def _share(
    questions: Sequence[Question], given: Sequence[Sequence[int]], numbers: Sequence[int], top: int
) -> float:
    right = sum(not questions[n].answers.isdisjoint(given[n][:top]) for n in numbers)
    return right / len(numbers) if numbers else 0.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", required=True, help="a name under models/, a path or a Hub id")
    parser.add_argument("--corpus", required=True, type=Path, help="the corpus it was trained on")
    parser.add_argument("--language", choices=("en", "ko"), default="en")
    parser.add_argument("--sequences", type=int, default=1024, help="held-out sequences")
    return parser.parse_args()


if __name__ == "__main__":
    main()
