"""`bertsmith predict`: questions from the command line, files or a pipe -> a model's answers.

    bertsmith predict RUN "a joy from beginning to end"
    bertsmith predict fill-mask --model mini-en "Paris is the [MASK] of France."
    bertsmith predict next-sentence --model mini-en "She cooked pasta." "It was delicious."
    bertsmith predict embed --model mini-en --file texts.txt > vectors.jsonl
    bertsmith predict similarity --model mini-en "my dog is cute" "my cat is sweet"
    bertsmith predict pseudo-perplexity --model mini-en "my dog is cute" "cute is dog my"
    bertsmith predict attention --model mini-en "my dog is cute" --layer 2

The model is loaded once; input streams through it window by window, so that a file may be larger
than memory. How answers are printed stands in `answers`.
"""

from __future__ import annotations

import itertools
import math
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bertsmith.commands import answers
from bertsmith.commands.answering import tell_decomposed, tell_unknown, watched
from bertsmith.commands.predict_options import (
    Asking,
    Attention,
    Embed,
    FillMask,
    NextSentence,
    Predict,
    PseudoPerplexity,
    Question,
    Similarity,
    refuse_to_generate,
)
from bertsmith.commands.predict_own import ask_own
from bertsmith.commands.predict_task import ask_task
from bertsmith.commands.predict_task_options import AskTask
from bertsmith.commands.questions import Questions
from bertsmith.commands.typed import refuse_files
from bertsmith.tasks.given import short

if TYPE_CHECKING:
    from bertsmith.inference import Predictor
    from bertsmith.model.sentence import Pooling
    from bertsmith.tasks.pseudo_perplexity import ScoredText

__all__ = ["Predict", "predict", "refuse_to_generate"]

Checked = TypeVar("Checked")
Sides = tuple[str, str | None]

_MASK = "[MASK]"
_CUT = "their end was not read"
# A text of n tokens is n sequences: answers should not wait for a whole window of texts.
_SCORED_AT_ONCE = 64


def predict(run: Question) -> None:
    """Answers on standard output, in the order of the questions; what was not read is reported.

    Raises ValueError or FileNotFoundError for a question that cannot be asked, those in arguments
    and files before the model is loaded.
    """
    files = (*run.file, run.squad) if isinstance(run, AskTask) else run.asking.file
    refuse_files(run.texts, _to_answer_rows)
    if not run.texts and not any(files) and sys.stdin.isatty():
        raise ValueError("nothing to answer: give a text, a --file, or pipe texts in")
    match run:
        case AskTask():
            (ask_task if run.task_class is None else ask_own)(run)
        case FillMask():
            _fill_masks(run)
        case NextSentence():
            _judge_pairs(run)
        case Embed():
            _embed(run)
        case Similarity():
            _compare(run)
        case PseudoPerplexity():
            _score(run)
        case Attention():
            _look(run)


def _to_answer_rows(name: str) -> str:
    quoted = shlex.quote(name)
    return f"to answer its rows, --file {quoted}; to answer its name, echo {quoted} | bertsmith ..."


def _fill_masks(run: FillMask) -> None:
    advice = "; each target has a --targets of its own" if run.targets else ""
    questions = Questions(_one_by_one(run.texts), run.asking.file, partial(_with_mask, advice))
    predictor = _loaded(run.asking, questions)
    show = answers.filled_as_json if run.jsonl else answers.filled_as_table
    num_cut = 0
    with watched(questions, predictor) as windows:
        for texts in windows:
            for answer in predictor.fill_mask(texts, top_k=run.top_k, targets=run.targets):
                show(answer)
                num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.limit, "only the part around their masks was read")
    tell_unknown(predictor)


def _judge_pairs(run: NextSentence) -> None:
    questions = Questions(_as_pair(run.texts), run.asking.file, _two_texts)
    predictor = _loaded(run.asking, questions)
    predictor.abilities.require("next_sentence")
    predictor.abilities.require_pairs()
    questions.check(lambda pair: predictor.abilities.require_tokens(*pair))
    show = answers.pair_as_json if run.jsonl else answers.pair_as_line
    num_cut = 0
    with watched(questions, predictor) as windows:
        for pairs in windows:
            for pair, answer in zip(pairs, predictor.next_sentence(pairs), strict=True):
                show(pair, answer)
                num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.limit, "the end of their longer text was not read")
    tell_unknown(predictor)


def _embed(run: Embed) -> None:
    questions = Questions(_one_by_one(run.texts), run.asking.file, str)
    predictor = _loaded(run.asking, questions)
    _tell_of_lost(predictor, run.pooling)
    num_cut = 0
    with watched(questions, predictor) as windows:
        for texts in windows:
            found = predictor.sentence_vectors(texts, run.pooling, run.is_normalized)
            for text, answer in zip(texts, found, strict=True):
                answers.vector_as_json(text, answer)
                num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.sentence_limit, _CUT)
    tell_unknown(predictor)


def _compare(run: Similarity) -> None:
    questions = Questions(_as_pair(run.texts), run.asking.file, _two_texts)
    predictor = _loaded(run.asking, questions)
    _tell_of_lost(predictor, run.pooling)
    show = answers.pair_as_json if run.jsonl else answers.pair_as_line
    num_cut = 0
    with watched(questions, predictor) as windows:
        for pairs in windows:
            for pair, answer in zip(pairs, predictor.similarity(pairs, run.pooling), strict=True):
                show(pair, answer)
                num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.sentence_limit, _CUT)
    tell_unknown(predictor)


def _score(run: PseudoPerplexity) -> None:
    questions = Questions(_one_by_one(run.texts), run.asking.file, str)
    predictor = _loaded(run.asking, questions)
    questions.check(predictor.abilities.require_tokens)
    as_text = answers.scored_as_table if run.tokens else answers.scored_as_line
    total, num_texts, num_tokens, num_unknown, num_windowed = 0.0, 0, 0, 0, 0
    for answer in _scores(predictor, questions):
        if run.jsonl:
            answers.scored_as_json(answer, with_tokens=run.tokens)
        else:
            as_text(answer)
        total += answer.log_likelihood
        num_texts += 1
        num_tokens += len(answer.question.tokens)
        num_unknown += answer.question.num_unknown
        num_windowed += answer.question.is_windowed
    if num_texts > 1:
        together = math.exp(-total / num_tokens)
        print(f"{num_texts:,} texts, {num_tokens:,} tokens: {together:.2f}", file=sys.stderr)
    if num_unknown:
        print(f"tokens that are [UNK] to this model: {num_unknown:,}", file=sys.stderr)
    tell_decomposed(predictor)
    questions.report(num_windowed, predictor.limit, "each token was judged in a window around it")


def _scores(predictor: Predictor, questions: Questions[str]) -> Iterator[ScoredText]:
    with watched(questions, predictor, _SCORED_AT_ONCE) as windows:
        for texts in windows:
            yield from predictor.pseudo_perplexity(texts)


def _look(run: Attention) -> None:
    if len(run.texts) > 2:
        raise ValueError(
            f"a text, or the two of a pair, is looked into: found {len(run.texts)} arguments; "
            f"quote each text, and give many through --file"
        )
    asked = [("the arguments", "\t".join(run.texts))] if run.texts else []
    questions = Questions(asked, run.asking.file, _one_or_two_texts)
    if run.out is not None:
        _look_into_file(run, questions)
        return
    predictor = _loaded(run.asking, questions)
    questions.check(partial(_require_readable, predictor))
    show = answers.look_as_json if run.jsonl else answers.look_as_table
    num_cut = 0
    with watched(questions, predictor, size=1) as windows:
        for (sides,) in windows:
            answer = predictor.look(*sides, special_tokens_in_text=run.special_tokens_in_text)
            show(answer, run)
            num_cut += answer.num_unread > 0
    questions.report(num_cut, predictor.limit, _CUT)
    tell_unknown(predictor)


def _look_into_file(run: Attention, questions: Questions[Sides]) -> None:
    assert run.out is not None
    if run.out.is_dir():
        raise ValueError(f"{run.out} is a directory: name a file")
    if run.out.exists() and not run.force:
        raise ValueError(f"{run.out} exists: name another file, or replace it with --force")
    every = list(itertools.islice(itertools.chain.from_iterable(questions.windows()), 2))
    if len(every) != 1:
        found = "several" if every else "none"
        raise ValueError(f"--out takes one text or pair, found {found}: ask for one at a time")
    predictor = _loaded(run.asking)
    predictor.tally.look_at(filter(None, every[0]))
    answer = predictor.look(*every[0], special_tokens_in_text=run.special_tokens_in_text)
    answers.look_as_file(answer, run.out)
    questions.report(int(answer.num_unread > 0), predictor.limit, _CUT)
    tell_unknown(predictor)


def _tell_of_lost(predictor: Predictor, pooling: Pooling | None) -> None:
    """Says what of the model's own vectors a pooling that was typed leaves out."""
    if lost := predictor.sentence.lost_by(pooling):
        print(f"note: {lost}", file=sys.stderr)


def _loaded(asking: Asking, questions: Questions[Checked] | None = None) -> Predictor:
    """The model, once the questions are known to be sound."""
    if questions is not None:
        questions.check()
    # Torch takes seconds to import: only now.
    from bertsmith.inference import Predictor
    from bertsmith.train.device import choose_device

    device = choose_device(asking.device)
    loaded = Predictor.load(asking.model, device=device, precision=asking.precision)
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    return loaded


def _one_by_one(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(f"text {number}", text) for number, text in enumerate(texts, start=1)]


def _as_pair(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    if len(texts) not in (0, 2):
        raise ValueError(f"a pair is two texts, found {len(texts)}: quote each of them")
    return [("the arguments", "\t".join(texts))] if texts else []


def _with_mask(advice: str, text: str) -> str:
    if _MASK not in text:
        told = f"no {_MASK} in {short(text)}: write {_MASK} where a word is missing"
        raise ValueError(told + advice)
    return text


def _two_texts(text: str) -> tuple[str, str]:
    first, _, second = text.partition("\t")
    if not (first.strip() and second.strip()) or "\t" in second:
        raise ValueError(f"expected two texts with one tab between them, found {short(text)}")
    return first, second


def _one_or_two_texts(text: str) -> Sides:
    return _two_texts(text) if "\t" in text else (text, None)


def _require_readable(predictor: Predictor, sides: Sides) -> None:
    if sides[1] is not None:
        predictor.abilities.require_pairs()
