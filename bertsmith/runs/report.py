"""A finished run -> samples of what it learned, and a README that explains its directory.

Samples are held-out sentences with one word hidden: the model never saw them, and the right answer
is known. It does not judge; it shows.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.corpus.store import Corpus
from bertsmith.files import write_text
from bertsmith.inference import Predictor
from bertsmith.randomness import Stream, integers
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.changes import changes_to, recipe_behind
from bertsmith.runs.directory import Record, checkpoint_path
from bertsmith.runs.evaluation import Evaluation, beside_unigram, told, unigram_warning
from bertsmith.runs.first_vectors import FILE_NAME as FIRST_VECTORS
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.log import read_metrics

_SHORTEST, _LONGEST = 8, 30  # tokens of a sentence worth showing
_TRIES_A_SAMPLE = 50
_NUM_SAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sentence with a hidden word, and what the model puts there."""

    text: str
    """The sentence with `[MASK]`."""
    hidden: str
    """The word that stood there; empty when nobody knows it."""
    candidates: tuple[tuple[str, float], ...]
    """(word, probability), likeliest first."""

    def line(self) -> str:
        """The sample in one line."""
        answers = "  ".join(f"{word} {share:.0%}" for word, share in self.candidates)
        hidden = f"  (hidden: {self.hidden})" if self.hidden else ""
        return f"{self.text}\n    {answers}{hidden}"


def explain(
    directory: Path, record: Record, evaluation: Evaluation | None, seconds: float
) -> list[str]:
    """Writes README.md and returns what a person should read at the end, line by line.

    `seconds` is the training time.
    """
    corpus = Corpus.open(record.corpus, "held_out")
    questions = held_out_questions(corpus, corpus.tokenizer(), _NUM_SAMPLES)
    found = samples(checkpoint_path(directory, record.run.num_steps), questions)
    write_readme(directory, record, evaluation, found, seconds)
    lines = [sample.line() for sample in found]
    if before := _before(directory):
        lines.append(f"before the first step: {before}")
    if evaluation is not None:
        lines.append(f"{evaluation.sentence()}; unigram line {record.unigram_entropy:.3f}")
        if warning := unigram_warning(evaluation.loss, record.unigram_entropy):
            lines.append(f"warning: {warning}")
    return [
        *lines,
        f"results, figures and how it was made: {directory / 'README.md'}",
        f"next: {next_command(directory, record.run, found)}",
    ]


def held_out_questions(corpus: Corpus, tokenizer: Tokenizer, count: int) -> list[tuple[str, str]]:
    """Up to `count` (text with `[MASK]`, hidden word) from the held-out documents, always the same.

    Hidden is a whole word of two letters or more that is one token.
    """
    found: dict[str, str] = {}
    for attempt in range(_TRIES_A_SAMPLE * count if corpus.num_documents else 0):
        document = int(integers(corpus.num_documents, 0, Stream.SPLIT, attempt, 0))
        sentences = corpus.document_sentences(document)
        sentence = sentences[int(integers(len(sentences), 0, Stream.SPLIT, attempt, 1))]
        places = _whole_words(sentence, tokenizer)
        if not _SHORTEST <= len(sentence) <= _LONGEST or len(places) == 0:
            continue
        place = int(places[int(integers(len(places), 0, Stream.SPLIT, attempt, 2))])
        hidden = tokenizer.token_of(int(sentence[place]))
        before = tokenizer.decode(sentence[:place].tolist())
        after = tokenizer.decode(sentence[place + 1 :].tolist())
        found[f"{before} [MASK] {after}".strip()] = hidden
        if len(found) == count:
            break
    return list(found.items())


def samples(model: Path, questions: Sequence[tuple[str, str]]) -> list[Sample]:
    """The model's candidates for every question; none for a model that fills no masks."""
    predictor = Predictor.load(model, precision="fp32")
    if not questions or predictor.model.language_model != "masked_lm":
        return []
    answers = predictor.fill_mask([text for text, _ in questions])
    return [
        Sample(
            text=text,
            hidden=hidden,
            candidates=tuple((one.token, one.probability) for one in answer.masks[0]),
        )
        for (text, hidden), answer in zip(questions, answers, strict=True)
    ]


def next_command(directory: Path, run: PretrainRun, run_samples: Sequence[Sample]) -> str:
    """What to type next, ready for a shell."""
    if "masked_lm" not in run.objectives:  # nothing answers questions about one direction
        return shlex.join(["bertsmith", "plot", str(directory)])
    text = run_samples[0].text if run_samples else "A sentence with one [MASK] in it."
    return shlex.join(["bertsmith", "predict", "fill-mask", "--model", str(directory), text])


def write_readme(
    directory: Path,
    record: Record,
    evaluation: Evaluation | None,
    run_samples: Sequence[Sample],
    seconds: float,
) -> None:
    """Writes README.md: what this directory is, its results, and how to use it."""
    run, model = record.run, record.run.model
    recipe = recipe_behind(run, record.request)
    kind = f"run `{run.name}`" if recipe is None else f"recipe `{recipe}`"
    version = record.versions.get("bertsmith", "")
    changes = [] if recipe is None else changes_to(recipe, run)
    parts = [
        f"# {directory.resolve().name}",
        "",
        f"{'A BERT' if model.told_kind == 'BERT' else 'A language model of LSTM layers'} "
        f"pre-trained{_told_model(record)} by bertsmith {version} with the {kind}"
        f"{', changed as listed below' if changes else ''}: {model.num_hidden_layers} layers of "
        f"{model.hidden_size}, vocabulary {model.vocab_size:,}, {run.num_steps:,} steps.",
        "",
        *(f"- {line}" for line in record.ancestry),
        *([""] if record.ancestry else []),
        "## Results",
        "",
        *_results(record, evaluation, seconds, _before(directory)),
        "",
        "![curves](curves.png)",
        "",
        *_sample_lines(run_samples),
        "## Use it",
        "",
        "```",
        next_command(directory, run, run_samples),
        "```",
        "",
        *_in_transformers(run),
        "## What lies here",
        "",
        "| file | what it is |",
        "|---|---|",
        "| `run.json` | every choice of the run, the corpus's fingerprint, the versions |",
        "| `metrics.jsonl` | one line a step, and the evaluations |",
        *_first_vectors_line(run),
        "| `curves.png` | the picture of them (`bertsmith plot` draws it again) |",
        "| `checkpoints/` | the last checkpoints: model, vocabulary, the trainer's state |",
        "",
        "## How it was made",
        "",
        f"`{record.command}`",
        "",
        *[f"- {note}" for note in record.notes],
        *[f"- {change}" for change in changes],
        *_model_line(record),
        f"- corpus `{record.corpus}`, fingerprint `{record.corpus_fingerprint}`",
        *[f"- {name} {version}" for name, version in record.versions.items()],
    ]
    write_text(directory / "README.md", "\n".join(parts) + "\n")


def _in_transformers(run: PretrainRun) -> list[str]:
    """How `transformers` reads the weights; it has no class for a right-to-left BERT or an LSTM."""
    classes = {"masked_lm": "AutoModelForMaskedLM", "left_to_right_lm": "AutoModelForCausalLM"}
    found = [name for objective, name in classes.items() if objective in run.objectives]
    if not found or run.model.told_kind != "BERT":
        return []
    return [
        "The newest folder under `checkpoints/` loads in `transformers` as it is:",
        f'`{found[0]}.from_pretrained("checkpoints/step-{run.num_steps:08d}")`.',
        "",
    ]


def _first_vectors_line(run: PretrainRun) -> list[str]:
    meaning = "the token embeddings it began with, counted from the text"
    return [f"| `{FIRST_VECTORS}` | {meaning} |"] if run.count_embeddings else []


def _told_model(record: Record) -> str:
    return f" further, from `{record.model}` on," if record.model else ""


def _model_line(record: Record) -> list[str]:
    found = f"- went on from `{record.model}`, fingerprint `{record.model_fingerprint}`"
    return [found] if record.model else []


def _before(directory: Path) -> str:
    """What the model was worth that a run went on from; empty of runs from drawn weights."""
    metrics = directory / "metrics.jsonl"
    rows = read_metrics(metrics) if metrics.is_file() else []
    first = [row for row in rows if row["step"] == 0 and "evaluation_loss" in row]
    if not first:
        return ""
    return told({name: value for name, value in first[-1].items() if isinstance(value, float)})


def _results(
    record: Record, evaluation: Evaluation | None, seconds: float, before: str
) -> list[str]:
    minutes = f"{seconds / 60:,.1f}"
    if evaluation is None:
        return [
            f"Trained for {minutes} minutes; no document was held out to evaluate "
            f"on (--held-out says how many)."
        ]
    rows = [
        "| on held-out documents | |",
        "|---|---|",
        f"| loss | {evaluation.loss:.3f} nats "
        f"({beside_unigram(evaluation.loss, record.unigram_entropy)}) |",
        f"| perplexity | {evaluation.perplexity:.2f} |",
        f"| accuracy | {evaluation.accuracy:.1%} of {evaluation.targets:,} predicted tokens |",
    ]
    if evaluation.next_accuracy is not None and evaluation.next_majority is not None:
        rows += [
            f"| next sentence | {evaluation.next_accuracy:.1%} of {evaluation.sequences:,} pairs "
            f"(majority label {evaluation.next_majority:.1%}) |",
            f"| next sentence, balanced | {evaluation.next_balanced_accuracy:.1%} |",
        ]
    if before:
        rows.append(f"| before the first step | {before} |")
    rows.append(f"| training time | {minutes} minutes |")
    warning = unigram_warning(evaluation.loss, record.unigram_entropy)
    return rows if warning is None else [*rows, "", f"**Warning:** {warning}."]


def _sample_lines(run_samples: Sequence[Sample]) -> list[str]:
    if not run_samples:
        return []
    lines = ["## Samples", "", "Held-out sentences with a hidden word:", "", "```"]
    return [*lines, *[sample.line() for sample in run_samples], "```", ""]


def _whole_words(sentence: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Places of tokens that are a word of letters on their own."""
    begins = ~tokenizer.is_continuation[sentence]
    ends = np.append(begins[1:], True)
    letters = np.array(
        [len(token) > 1 and token.isalpha() for token in map(tokenizer.token_of, sentence.tolist())]
    )
    return np.flatnonzero(begins & ends & letters)
