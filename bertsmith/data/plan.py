"""A corpus and its rules -> the batch of any step: a pure function of (seed, step).

No state is carried from step to step, so any process may draw any step in any order, and a killed
run resumes from the step number alone. Steps take batch_size rows each from the endless sequence of
`epochs`, across the borders of epochs without a gap; each row's tokens are read, joined and masked
here. The sequence length is part of every key, so two phases of different lengths share no draws.
This file knows no model.

Source: Devlin et al. 2018, section 3.1 and appendix A.2; google-research/bert
create_pretraining_data.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.epochs import Epochs, Measure
from bertsmith.data.inputs import Int32Array, assemble, neighbour_targets
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.data.pairs import PairRules
from bertsmith.randomness import Int64Array, hash64
from bertsmith.text.tokenizer import Tokenizer

TOKEN_OBJECTIVES = ("masked_lm", "left_to_right_lm", "right_to_left_lm")
NEXT_SENTENCE = "next_sentence"


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """All that decides a step's batch, beside the corpus and the step's number."""

    batch_size: int
    """Sequences a step, over all micro-batches and processes (paper: 256)."""
    pairs: PairRules
    masking: Masking
    objectives: tuple[str, ...] = ("masked_lm", "next_sentence")
    """One of masked_lm, left_to_right_lm, right_to_left_lm; with or without next_sentence."""
    seed: int = 0
    first_sequence: int = 0
    """Sequences that earlier steps of another batch size took: step 0 begins after them."""

    def __post_init__(self) -> None:
        """Refuses objectives that contradict each other or the input."""
        known = (*TOKEN_OBJECTIVES, NEXT_SENTENCE)
        names = self.objectives
        num_token_objectives = sum(name in TOKEN_OBJECTIVES for name in names)
        if (
            not set(names) <= set(known)
            or len(set(names)) < len(names)
            or num_token_objectives != 1
        ):
            raise ValueError(
                f"objectives must hold exactly one of {', '.join(TOKEN_OBJECTIVES)}, and may hold "
                f"{NEXT_SENTENCE}; found {names}"
            )
        if NEXT_SENTENCE in names and self.pairs.form != "pairs":
            raise ValueError(
                f"next_sentence needs inputs of the form `pairs`, found `{self.pairs.form}`, where "
                f"no B is ever random: choose `pairs`, or leave next_sentence out"
            )
        if self.batch_size < 1 or self.first_sequence < 0:
            raise ValueError(
                f"batch_size must be at least 1 and first_sequence at least 0, found "
                f"{self.batch_size} and {self.first_sequence}"
            )


@dataclass(frozen=True, kw_only=True)
class PlanSummary:
    """What a plan expects of its corpus, measured on at most eight of its shards."""

    rows_per_epoch: int
    tokens_per_sequence: float
    """Mean length, `[CLS]` and `[SEP]` included."""
    random_share: float
    """Share of sequences whose B is random (NotNext): above one half, as in the original."""
    warnings: tuple[str, ...]
    """What a person should know before a long run, one sentence each."""


class Plan:
    """The batches of a training phase, each a pure function of its step's number."""

    def __init__(self, corpus: Corpus, rules: StepRules) -> None:
        """Draws at most eight shards once; the time does not grow with the corpus beyond that."""
        _refuse_hopeless(corpus, rules)
        self.rules = rules
        self._corpus = corpus
        self._vocabulary = _facts(corpus.tokenizer())
        self._epochs = Epochs(corpus, rules.pairs, rules.masking.fixed_copies, rules.seed)

    @property
    def rows_per_epoch(self) -> int:
        """Sequences of one pass over the corpus."""
        return self._epochs.rows_per_epoch

    def epochs(self, steps: int) -> float:
        """Passes over the corpus that so many steps make."""
        return steps * self.rules.batch_size / self.rows_per_epoch

    def describe(self) -> PlanSummary:
        """What to expect, for the plan that is printed before the start."""
        measure = self._epochs.measure
        num_special = self.rules.pairs.sequence_length - self.rules.pairs.max_tokens
        return PlanSummary(
            rows_per_epoch=self.rows_per_epoch,
            tokens_per_sequence=measure.tokens_per_row + num_special,
            random_share=measure.random_share,
            warnings=_warnings(measure, self.rules),
        )

    def step(self, number: int) -> PretrainBatch:
        """The batch of step `number`, counted from 0; `packed.keys` are 0 to batch_size - 1."""
        if number < 0:
            raise ValueError(f"a step's number must not be negative, found {number}")
        rules, size = self.rules, self.rules.batch_size
        rows = self._epochs.rows(rules.first_sequence + number * size, size)  # (B, 6)
        token_ids, segment_ids, lengths = self._read(rows)
        token_ids, target_rows, target_ids = self._targets(rows, token_ids, lengths)
        has_labels = NEXT_SENTENCE in rules.objectives
        return PretrainBatch(
            packed=PackedBatch(
                token_ids=token_ids,
                segment_ids=segment_ids,
                lengths=lengths,
                keys=np.arange(size, dtype=np.int64),
            ),
            target_rows=target_rows,
            target_ids=target_ids,
            next_labels=rows[:, 4].astype(np.int8) if has_labels else None,
            step_targets=len(target_rows),
            step_sequences=size,
        )

    def _read(self, rows: Int64Array) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Rows -> token_ids (T,), segment_ids (T,), lengths (B,)."""
        starts, ends = rows[:, [0, 2]], rows[:, [1, 3]]
        content_ids, _ = self._corpus.read(starts.ravel(), ends.ravel())
        facts = self._vocabulary
        return assemble(content_ids, ends - starts, facts.cls_id, facts.sep_id)

    def _targets(
        self, rows: Int64Array, token_ids: Int32Array, lengths: Int32Array
    ) -> tuple[Int32Array, Int64Array, Int32Array]:
        """The ids the model sees (T,), the rows it predicts on (M,), what it must predict (M,)."""
        rules = self.rules
        if "masked_lm" in rules.objectives:
            # The start of A differs in every row of a pass, so with the pass it names the example.
            names = hash64(rules.pairs.sequence_length, rows[:, 5], rows[:, 0]).view(np.int64)
            return mask(token_ids, lengths, names, rules.masking, self._vocabulary, rules.seed)
        goes_right = "left_to_right_lm" in rules.objectives
        return token_ids, *neighbour_targets(token_ids, lengths, 1 if goes_right else -1)


def _facts(tokenizer: Tokenizer) -> VocabularyFacts:
    return VocabularyFacts(
        vocab_size=tokenizer.vocab_size,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        is_continuation=tokenizer.is_continuation,
    )


def _refuse_hopeless(corpus: Corpus, rules: StepRules) -> None:
    if corpus.num_tokens == 0:
        raise ValueError("the corpus has no tokens: build it from text that has some")
    if NEXT_SENTENCE in rules.objectives and corpus.num_documents < 2:
        raise ValueError(
            "next_sentence needs at least 2 documents, found 1: a random B would come from the "
            "same document and carry the wrong label. Separate the documents (one file each, or a "
            "blank line between them where a line is a sentence), or leave next_sentence out"
        )


def _warnings(measure: Measure, rules: StepRules) -> tuple[str, ...]:
    if NEXT_SENTENCE not in rules.objectives or not measure.one_sentence_documents:
        return ()
    share = measure.one_sentence_documents / measure.documents
    if share < 0.5:
        return ()
    return (
        f"{measure.one_sentence_documents} of {measure.documents} documents looked at have one "
        f"sentence only, so {measure.random_share:.0%} of all B are random and next_sentence has "
        f"little to learn. If the text has a blank line after every sentence, leave blank lines "
        f"between documents only; else train without next_sentence",
    )
