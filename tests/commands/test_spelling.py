"""A choice in another case is that choice; every other word stays as it was typed."""

from __future__ import annotations

import pytest

from bertsmith.commands.predict_options import Predict
from bertsmith.commands.pretrain_options import Pretrain
from bertsmith.commands.spelling import in_their_case
from bertsmith.commands.text_options import LearnVocab


@pytest.mark.parametrize(
    ("kind", "typed", "read"),
    [
        (LearnVocab, "X --unicode-form nfc", "X --unicode-form NFC"),
        (LearnVocab, "X --unicode_form=nfkd", "X --unicode_form=NFKD"),
        (LearnVocab, "X --unicode-form None", "X --unicode-form none"),
        (LearnVocab, "X --unicode-form Auto", "X --unicode-form auto"),
        (LearnVocab, "X --unicode-form nfz", "X --unicode-form nfz"),
        (LearnVocab, "X --strip-accents false", "X --strip-accents False"),
        (LearnVocab, "NFC --out nfc --text-field none", "NFC --out nfc --text-field none"),
        (Pretrain, "Mini --size Mini --out Mini", "Mini --size mini --out Mini"),
        (Pretrain, "X --objectives MASKED_LM Next_Sentence",
         "X --objectives masked_lm next_sentence"),
        (Pretrain, "X --dropout --minutes None", "X --dropout --minutes None"),
        (Predict, "fill-mask --model X --jsonl True", "fill-mask --model X --jsonl True"),
        (Predict, "nothing --such NFC", "nothing --such NFC"),
    ],
)  # fmt: skip
def test_a_choice_is_taken_in_any_case(kind: object, typed: str, read: str) -> None:
    assert in_their_case(typed.split(), kind) == read.split()
