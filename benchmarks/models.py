"""A finished run -> a model under `models/`, in bf16, with a card of measured figures.

    python -m benchmarks.models RUN --name mini-en --language en --texts TEXTS.md

The last checkpoint is written in the Hugging Face layout; the model that was written, not the run,
then answers `benchmarks.cloze` and `benchmarks.perplexity`, whose figures stand in the card.
`TEXTS.md` says in a few lines which texts the corpus was made of and under which licence they are.
A model that stands already is replaced with `--replace` only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks import perplexity
from benchmarks.cloze import Language, Row, measure, table
from benchmarks.machine import append_row, processor
from bertsmith.checkpoints.store import load, save
from bertsmith.corpus.store import Corpus
from bertsmith.files import write_text
from bertsmith.inference import Predictor
from bertsmith.runs.directory import Record, checkpoint_path, read_record
from bertsmith.runs.progress import duration
from bertsmith.runs.report import held_out_questions, samples
from bertsmith.train.log import read_metrics

MODELS = Path(__file__).parent.parent / "models"
LICENCE = "cc-by-sa-3.0"
"""Of the weights: that of the encyclopaedia among their texts."""
EXAMPLES: dict[Language, str] = {
    "en": "Paris is the [MASK] of France.",
    "ko": "서울은 대한민국의 [MASK]이다.",
}
_NUM_SAMPLES = 4
_HELD_OUT_SEQUENCES = 2048


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a run took, added up from its metrics."""

    tokens: int
    """Real tokens of all steps."""
    seconds: float
    """Of all steps; evaluations and checkpoints are not in it."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """What was measured on the written model."""

    cloze: Row
    perplexity: perplexity.Row


def main() -> None:
    """Writes the model, measures it, writes its card and appends the measured row."""
    options = _options()
    record, directory = read_record(options.run), options.models / options.name
    texts = options.texts.read_text(encoding="utf-8").strip()
    if directory.exists() and not options.replace:
        raise SystemExit(f"{directory} stands already: compare both, then use --replace")
    loaded = load(checkpoint_path(options.run, record.run.num_steps))
    save(directory, loaded.model, loaded.config, loaded.tokenizer, dtype=torch.bfloat16, card=texts)
    predictor = Predictor.load(directory, precision="fp32")
    row = measure(predictor, record.corpus, options.language, _HELD_OUT_SEQUENCES)
    append_row("cloze", {"model": options.name, **asdict(row)})
    beside = perplexity.measure(predictor, record.corpus, _HELD_OUT_SEQUENCES)
    append_row("perplexity", {"model": options.name, **asdict(beside)})
    documents = Corpus.open(record.corpus, "held_out")
    questions = [
        (EXAMPLES[options.language], ""),
        *held_out_questions(documents, loaded.tokenizer, _NUM_SAMPLES),
    ]
    answered = [sample.line() for sample in samples(directory, questions)]
    results = Results(cloze=row, perplexity=beside)
    text = card(options.name, record, training_of(options.run), results, texts, answered)
    write_text(directory / "README.md", text)
    num_bytes = sum(file.stat().st_size for file in directory.iterdir())
    print(f"{table(row)}\n{chr(10).join(answered)}\n{directory}: {num_bytes / 1e6:.1f} MB")


def training_of(run: Path) -> Training:
    """Tokens and seconds of the run's steps."""
    rows = [row for row in read_metrics(run / "metrics.jsonl") if row.get("tokens")]
    return Training(
        tokens=int(sum(float(row["tokens"]) for row in rows)),
        seconds=sum(float(row["seconds"]) for row in rows),
    )


def card(
    name: str,
    record: Record,
    training: Training,
    results: Results,
    texts: str,
    answered: Sequence[str],
) -> str:
    """README.md of a model: what it is, its figures, what it was made of and how."""
    run, model, row = record.run, record.run.model, results.cloze
    phases = "; ".join(
        f"{phase.steps:,} of {phase.batch_size} sequences of at most {phase.sequence_length} tokens"
        for phase in run.phases
    )
    return f"""\
---
language: {row.language}
license: {LICENCE}
library_name: transformers
pipeline_tag: fill-mask
tags: [bert, bertsmith]
---
# {name}

A BERT pre-trained from raw text by bertsmith: {model.num_hidden_layers} layers of
{model.hidden_size}, {model.num_attention_heads} heads, a vocabulary of {model.vocab_size:,}, both
heads of pre-training; bf16 safetensors in the Hugging Face layout.

```bash
bertsmith predict fill-mask --model {name} "{EXAMPLES[row.language]}"
```

## Results

On {row.held_out_sequences:,} sequences of held-out documents, and on \
{cloze_sentences(row)}, beside n-gram models counted on the same training text:

{chr(10).join([*result_lines(row), "", *perplexity_lines(results.perplexity)])}

Its answers to an example and to held-out sentences with a word hidden:

```text
{chr(10).join(answered)}
```

## Texts

{texts}

The corpus `{row.corpus}`: {row.train_tokens:,} tokens to train on, fingerprint
`{record.corpus_fingerprint[:16]}`.

## Recipe

`{record.command}`

{run.num_steps:,} steps: {phases}. {training.tokens / 1e6:,.1f}M tokens in
{duration(training.seconds)} on {processor()} with {record.versions["threads"]} threads in
{run.precision}, seed {run.seed}. Peak learning rate {run.optimizer.learning_rate:g}. bertsmith
{record.versions["bertsmith"]}, torch {record.versions["torch"]}.

## Limits

A small model of an hour's training, kept so that the project answers without a network: it knows
grammar and frequent phrases, few facts, and it repeats what its texts say.
"""


def cloze_sentences(row: Row) -> str:
    """Which cloze sentences were asked, and why the others were not where there are others."""
    of = f"cloze sentences in `benchmarks/cloze/{row.language}.jsonl`"
    if not row.questions_left_out:
        return f"the {row.questions}\n{of}"
    return (
        f"{row.questions} of the {row.questions + row.questions_left_out}\n{of} (the answers of "
        f"the others are no single\ntoken of this vocabulary)"
    )


def result_lines(row: Row) -> list[str]:
    """The held-out figures and the cloze shares as two Markdown tables."""
    held_out, score = row.held_out, row.scores["all"]
    lines = [
        "| held out | |",
        "|---|---|",
        f"| masked-LM loss | {held_out['evaluation_loss']:.3f} nats |",
        f"| perplexity | {held_out['evaluation_perplexity']:.1f} |",
        f"| accuracy | {held_out['evaluation_accuracy']:.1%} |",
    ]
    if "evaluation_next_accuracy" in held_out:
        lines.append(
            f"| next sentence | {held_out['evaluation_next_accuracy']:.1%} (balanced "
            f"{held_out['evaluation_next_balanced_accuracy']:.1%}, majority label "
            f"{held_out['evaluation_next_majority']:.1%}) |"
        )
    return [
        *lines,
        "",
        "| cloze | top 1 | top 5 |",
        "|---|---|---|",
        *(
            f"| {system.replace('_', ' ')} | {share:.1%} | {score.top_5[system]:.1%} |"
            for system, share in score.top_1.items()
        ),
    ]


def perplexity_lines(row: perplexity.Row) -> list[str]:
    """The perplexities as a Markdown table, and how to read it."""
    return [
        *perplexity.table(row),
        "",
        "All predict the same held-out tokens and see the same text with the same masks; how the",
        "n-gram models are smoothed stands in `benchmarks/perplexity.py`. In a fifth of the places",
        "there is no `[MASK]`, but the token itself or a drawn one.",
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="the directory of a finished run")
    parser.add_argument("--name", required=True, help="the model's folder under models/")
    parser.add_argument("--language", choices=sorted(EXAMPLES), default="en")
    parser.add_argument("--texts", required=True, type=Path, help="texts and licences, Markdown")
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--replace", action="store_true", help="instead of the model there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
