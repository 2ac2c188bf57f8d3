"""How large an experiment is: what stands for the paper's BASE, and how long everything learns.

`paper` is the paper. `mini` is a third of it in depth, width and heads, meant for ten hours of two
cores (it took 14: docs/models.md); `tiny` a sixth, to see in minutes that everything works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from bertsmith.model.config import LARGE, MINI, TABLE_6, TINY, BertConfig, sized
from bertsmith.model.task import LSTM_SIZE
from bertsmith.recipes.ablations import one_way, resized
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Joined, Model, Pretrained, Score
from bertsmith.recipes.finetuning import (
    FEATURE_GRID,
    GRIDS,
    FinetuneRun,
    ner_features,
)
from bertsmith.recipes.pretraining import mini_cpu, paper_base, scaled
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.train.config import OptimizerConfig

LAST_FEW = 4
"""Layers that Table 7 reads side by side."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One size of everything."""

    name: str
    base: PretrainRun
    """In place of BASE."""
    large: BertConfig
    """In place of LARGE."""
    sizes: tuple[BertConfig, ...]
    """In place of Table 6's rows, in its order; one of them is the size of `base`."""
    vocab_size: int
    cased_vocab_size: int = 28_996
    """Of a cased model's vocabulary, where there is one."""
    cased_entities: bool = False
    """Whether named entities are read by a cased model of its own (paper: yes)."""
    milestones: tuple[int, ...] = (1, 3, 5, 7, 10)
    """Checkpoints of Figure 5, in tenths of the steps."""
    restarts: int = 3
    """Seeds of a fine-tuning."""
    small_restarts: int = 5
    """Of a small set."""
    learning_rate: float | None = None
    """Of every fine-tuning; None: the paper's values and searches."""
    epochs: Mapping[str, float] = field(default_factory=dict)
    """By exam, where they are not its own."""
    most_examples: Mapping[str, int] = field(default_factory=dict)
    """By exam, where not all are learned from."""
    feature_epochs: float = 10.0
    lstm_size: int = LSTM_SIZE
    """States a direction of a BiLSTM (paper: 768)."""
    max_tokens: int | None = None
    """Of every sequence in fine-tuning; None: each exam's own."""
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By exam, how its examples are read, where it is not the exam's own way."""

    def described(self) -> str:
        """What it is, in a sentence."""
        config, phases = self.base.model, self.base.phases
        tokens = sum(each.steps * each.batch_size * each.sequence_length for each in phases)
        return (
            f"in place of BASE L{config.num_hidden_layers} H{config.hidden_size} "
            f"A{config.num_attention_heads}, {self.vocab_size:,} word pieces, "
            f"{self.base.num_steps:,} steps of at most {tokens / 1e6:,.1f} M tokens; "
            f"{'; '.join(self._learns())}; the model of the last step counts."
            f"{self._begun_otherwise()}"
        )

    def _learns(self) -> Iterator[str]:
        """How tasks are learned, by all systems alike."""
        if self.learning_rate is None:
            yield "fine-tuned at the paper's rates, of several at the one with the best mean on Dev"
        else:
            times = {f"{each:g}" for each in self.epochs.values()}
            epochs = f"of {' or '.join(sorted(times))}" if times else "as many as in the paper"
            rate = ner_features("last").optimizer.learning_rate
            yield f"fine-tuned at {self.learning_rate:g}, epochs {epochs}"
            yield f"frozen features learned at {rate:g}, epochs {self.feature_epochs:g}"
        if self.lstm_size != LSTM_SIZE:
            yield f"BiLSTMs have {self.lstm_size} states a direction (the paper's {LSTM_SIZE})"
        if self.max_tokens is not None:
            yield f"no sequence has more than {self.max_tokens} tokens"
        alike: dict[str, list[str]] = {}
        for exam, options in self.options.items():
            told = ", ".join(f"{name} {value}" for name, value in options.items())
            alike.setdefault(told, []).append(exam)
        for told, exams in alike.items():
            yield f"{', '.join(exams)} with {told}"

    def _begun_otherwise(self) -> str:
        """How pre-training differs from the paper's in what no table changes; empty if it doesn't.

        It holds for left-to-right models, LSTMs and early checkpoints too.
        """
        told = []
        if not self.base.dropout:
            told.append("pre-training is without dropout")
        if self.base.count_embeddings:
            told.append(
                "all models begin with token embeddings counted from neighbours on both sides in "
                "the text, not drawn"
            )
        if self.base.tile_positions:
            told.append("new positions of a longer phase begin as copies of those before")
        return f" Unlike the paper's: {'; '.join(told)}." if told else ""

    def bert(self, *, cased: bool = False, step: int | None = None) -> Pretrained:
        """The model in place of BASE, whose checkpoints Figure 5 reads."""
        run = replace(self.base, keep_every=self.steps_between)
        return Pretrained(run=run, cased=cased and self.cased_entities, step=step)

    def left_to_right(self, *, step: int | None = None) -> Pretrained:
        """Table 5's "LTR & No NSP", the other line of Figure 5."""
        run = one_way(replace(self.base, keep_every=self.steps_between), "left_to_right")
        return Pretrained(run=run, step=step)

    def sized(self, config: BertConfig) -> Pretrained:
        """Another size, trained like `base`; that of `base` is the model itself."""
        run = resized(self.base, config)
        return self.bert() if run.model == self.base.model else Pretrained(run=run)

    @property
    def steps_between(self) -> int:
        """Updates from one checkpoint that is kept to the next: a tenth of all."""
        return self.base.num_steps // 10

    def score(self, model: Model, exam: str) -> Score:
        """The model fine-tuned on a set in the way of this scale."""
        known = EXAMS[exam]
        run, grid = known.run, _SEARCHED.get(known.run.name)
        if self.learning_rate is not None:
            optimizer = replace(run.optimizer, learning_rate=self.learning_rate)
            run, grid = replace(run, optimizer=optimizer), None
        run = replace(
            run,
            epochs=self.epochs.get(exam, run.epochs),
            keep_best=False,
            evaluate_every=self.epochs.get(exam, run.epochs),
        )
        return Score(
            model=model,
            exam=exam,
            run=run,
            restarts=self.small_restarts if known.is_small else self.restarts,
            grid=grid,
            most_examples=self.most_examples.get(exam),
            max_tokens=self.max_tokens,
            options=self.options.get(exam, {}),
        )

    def features(self, model: Pretrained | Joined, layers: str) -> Score:
        """Named entities from frozen hidden states (section 5.3)."""
        side = model.left_to_right if isinstance(model, Joined) else model
        run: FinetuneRun = replace(
            ner_features(_there(layers, side.run.model.num_hidden_layers)),
            lstm_size=self.lstm_size,
            epochs=self.feature_epochs,
            keep_best=False,
            evaluate_every=self.feature_epochs,
        )
        return Score(
            model=model,
            exam="CoNLL-2003",
            run=run,
            restarts=self.restarts,
            grid=FEATURE_GRID if self.learning_rate is None else None,
            most_examples=self.most_examples.get("CoNLL-2003"),
            max_tokens=self.max_tokens,
        )


_SEARCHED = {"glue": GRIDS["glue"], "ner": GRIDS["ner"]}
"""What the paper chose on Dev, by recipe (sections 4.1 and 5.3)."""


def _there(layers: str, num_layers: int) -> str:
    """The layers, where a model of fewer than four has all of them in place of its last four."""
    if num_layers >= LAST_FEW or "last-four" not in layers:
        return layers
    is_sum = layers.startswith("weighted-sum")
    return "weighted-sum-all" if is_sum else ",".join(map(str, range(1, num_layers + 1)))


def _sizes(*sizes: tuple[int, int, int]) -> tuple[BertConfig, ...]:
    """Layers, width and heads of each, with initial weights as large as their width wants."""
    return tuple(scaled(sized(*size)) for size in sizes)


_SHORT_WINDOWS: Mapping[str, Mapping[str, object]] = {
    exam: {"doc_stride": 64, "max_question_tokens": 32}
    for exam in ("SQuAD 1.1", "SQuAD 2.0", "TriviaQA")
}
"""What fits into 128 tokens, the longest sequence that a small model has seen."""


def _small(name: str, model: BertConfig, phases: tuple[Phase, ...], rate: float) -> PretrainRun:
    """As `mini_cpu`, with the paper's share of masks, and dropout as there: none."""
    steps = sum(phase.steps for phase in phases)
    return replace(
        mini_cpu(),
        name=name,
        model=scaled(model),
        masking=replace(mini_cpu().masking, rate=0.15),
        phases=phases,
        optimizer=OptimizerConfig(learning_rate=rate, beta2=0.98),
        warmup_steps=steps // 20,
        evaluate_every=max(1, steps // 10),
        save_every=max(1, steps // 10),
        log_every=max(1, steps // 20),
    )


def paper() -> Scale:
    """The paper's own sizes, steps and values: days of many accelerators."""
    return Scale(
        name="paper",
        base=paper_base(),
        large=LARGE,
        sizes=TABLE_6,
        vocab_size=30_522,
        cased_entities=True,
        restarts=5,
    )


def mini() -> Scale:
    """A third of the paper's depth, width and heads, on 8 million tokens a model.

    Sequences grow from 32 to 128 tokens in one schedule, for every system alike; questions about
    passages, whose windows are longer, are read in windows of 128 by all.
    """
    phases = (
        Phase(steps=800, sequence_length=32, batch_size=128),
        Phase(steps=1_200, sequence_length=128, batch_size=32),
    )
    return Scale(
        name="mini",
        base=_small("mini", MINI, phases, 1e-3),
        large=scaled(sized(8, 384, 6)),
        sizes=_sizes((1, 256, 4), (2, 256, 1), (2, 256, 4), (4, 256, 4), (4, 384, 6), (8, 384, 6)),
        vocab_size=8_000,
        learning_rate=1e-4,
        most_examples={
            "SST-2": 20_000,
            **dict.fromkeys(("QNLI", "QQP"), 10_000),
            **dict.fromkeys(_SHORT_WINDOWS, 5_000),
        },
        feature_epochs=3.0,
        lstm_size=128,
        max_tokens=128,
        options=_SHORT_WINDOWS,
    )


def tiny() -> Scale:
    """A sixth of the paper's depth and width, on a million tokens: to see that everything works."""
    phases = (
        Phase(steps=200, sequence_length=32, batch_size=64),
        Phase(steps=150, sequence_length=128, batch_size=16),
    )
    return Scale(
        name="tiny",
        base=_small("tiny", TINY, phases, 2e-3),
        large=scaled(sized(4, 192, 3)),
        sizes=_sizes((1, 128, 2), (1, 128, 1), (2, 128, 1), (2, 128, 2), (2, 192, 3), (4, 192, 3)),
        vocab_size=4_000,
        small_restarts=3,
        learning_rate=5e-4,
        epochs=dict.fromkeys(EXAMS, 1.0),
        most_examples=dict.fromkeys(EXAMS, 1_000),
        feature_epochs=2.0,
        lstm_size=64,
        max_tokens=128,
        options=_SHORT_WINDOWS,
    )


SCALES = {"tiny": tiny, "mini": mini, "paper": paper}
