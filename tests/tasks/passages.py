"""A passage, a tokenizer that knows its words, questions about it, and windows smaller than it."""

from __future__ import annotations

from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks.squad import SquadConfig
from bertsmith.text.tokenizer import Tokenizer

PASSAGE = "Marie Curie (1867-1934) won the Nobel Prize twice: in physics, and in chemistry."
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL = SquadConfig(max_tokens=20, doc_stride=4, max_question_tokens=6, max_answer_tokens=5)


def passage_tokenizer() -> Tokenizer:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789()-.,:?"
    return Tokenizer(
        [*SPECIAL, *letters, *(f"##{letter}" for letter in letters),
         "marie", "curie", "won", "the", "nobel", "prize", "twice", "in", "and", "who", "18",
         "##67", "19", "##34", "physics", "chemistry", "when"]
    )  # fmt: skip


def question(key: str, text: str, *answers: str, passage: str = PASSAGE) -> Question:
    found = tuple(Answer(text=each, start=passage.index(each)) for each in answers)
    return Question(key=key, question=text, passage=passage, answers=found, place=f"q {key}")
