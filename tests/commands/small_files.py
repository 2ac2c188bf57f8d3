"""Files of every kind of labelled examples, each learned in seconds by a toy encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bertsmith.randomness import integers

PLACES = ("paris", "london", "france")
WORDS = ("the", "dog", "cat", "likes", "my", "he", "is")
RUN = (
    "--max-tokens", "16", "--batch-size", "8", "--epochs", "2", "--precision", "fp32",
    "--threads", "1", "--log-every", "5", "--save-every", "0.5", "--evaluate-every", "0.5",
    "--optimizer.learning-rate", "2e-3",
)  # fmt: skip
"""The options of a run beside its model, files and directory."""
SPANS = ("--doc-stride", "4", "--max-question-tokens", "4", "--max-answer-tokens", "2")
TEXTS = ("--text-columns", "words", "--label-column", "about")


def drawn(count: int, key: int) -> list[list[int]]:
    rows: list[list[int]] = integers(3, key, np.arange(count * 4)).reshape(count, 4).tolist()
    return rows


def squad(path: Path, count: int, key: int, *, some_impossible: bool = False) -> Path:
    """Questions for a place, each about a passage of its own; every fourth may have none."""
    paragraphs = []
    for number, (first, second, third, place) in enumerate(drawn(count, key)):
        is_impossible = some_impossible and number % 4 == 0
        named = "my" if is_impossible else PLACES[place]
        passage = f"{WORDS[first]} {WORDS[second]} {named} {WORDS[third]} the dog my cat"
        answer = {"text": named, "answer_start": passage.index(named)}
        question = {
            "id": f"{key}-{number}", "question": "is he ?",
            "answers": [] if is_impossible else [answer], "is_impossible": is_impossible,
        }  # fmt: skip
        paragraphs.append({"context": passage, "qas": [question]})
    path.write_text(json.dumps({"version": "x", "data": [{"paragraphs": paragraphs}]}))
    return path


def asked_rows(path: Path, count: int, key: int) -> Path:
    """The same questions as CSV, an answer a row, and where it begins."""
    (article,) = json.loads(squad(path.with_suffix(".json"), count, key).read_text())["data"]
    lines = ["question,context,answer,answer_start"]
    for paragraph in article["paragraphs"]:
        (question,) = paragraph["qas"]
        (answer,) = question["answers"]
        cells = (question["question"], paragraph["context"], *answer.values())
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def tagged(path: Path, count: int, key: int, *, in_documents: bool = True) -> Path:
    """Sentences of four words, of which the second is a place; four of them a document."""
    lines: list[str] = []
    for number, (first, second, third, place) in enumerate(drawn(count, key)):
        if in_documents and number % 4 == 0:
            lines += ["-DOCSTART- O", ""]
        words = (WORDS[first], PLACES[place], WORDS[3 + second], WORDS[third])
        lines += [f"{word} {'I-LOC' if word in PLACES else 'O'}" for word in words]
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def word_rows(path: Path, count: int, key: int) -> Path:
    """The same sentences as CSV, a word a row."""
    blocks = tagged(path.with_suffix(".txt"), count, key, in_documents=False).read_text()
    lines = ["number,word,tag"]
    for number, block in enumerate(blocks.rstrip("\n").split("\n\n")):
        lines += [f"{number},{line.replace(' ', ',')}" for line in block.split("\n")]
    path.write_text("\n".join(lines) + "\n")
    return path


def choices(path: Path, count: int, key: int) -> Path:
    """Questions of ARC's, each with two to four choices of which one names a place."""
    rows = []
    for number, (first, second, label, place) in enumerate(drawn(count, key)):
        texts = [f"my {WORDS[(first + k) % 3]}" for k in range(2 + second % 3)]
        texts[label % len(texts)] = f"my {PLACES[place]}"
        listed = [{"text": text, "label": "ABCD"[at]} for at, text in enumerate(texts)]
        question = {"stem": f"he likes {WORDS[first]}", "choices": listed}
        rows.append(
            {"id": str(number), "question": question, "answerKey": "ABCD"[label % len(texts)]}
        )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def swag(path: Path, count: int, key: int) -> Path:
    """Endings in SWAG's columns, of which one names a place."""
    lines = ["sent1,sent2,ending0,ending1,ending2,ending3,label"]
    for first, second, label, place in drawn(count, key):
        endings = [f"my {WORDS[(first + k) % 3]}" for k in range(4)]
        endings[label % 4] = f"my {PLACES[place]}"
        lines.append(f"the {WORDS[second]},he likes,{','.join(endings)},{label % 4}")
    path.write_text("\n".join(lines) + "\n")
    return path


def texts(path: Path, count: int, key: int, *, problem: str = "single_label") -> Path:
    """Sentences as CSV, with what they are about: a place or a beast, both, or how many."""
    lines = ["words,about"]
    for first, second, third, place in drawn(count, key):
        words = [WORDS[first], PLACES[place] if second % 2 else "dog", WORDS[3 + third]]
        names = [
            name for name, found in (("place", second % 2), ("beast", "dog" in words)) if found
        ]
        label = {"multi_label": ";".join(names), "regression": str(len(names))}
        lines.append(f"{' '.join(words)},{label.get(problem, names[0])}")
    path.write_text("\n".join(lines) + "\n")
    return path


def pairs(path: Path, count: int, key: int) -> Path:
    """Pairs as JSONL, and whether the second is a place."""
    rows = [
        {
            "first": WORDS[first],
            "second": PLACES[place] if second % 2 else "dog",
            "label": second % 2,
        }
        for first, second, _, place in drawn(count, key)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
