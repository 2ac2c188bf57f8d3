"""Checks of this installation's tokenizer and of its input assembly, against golden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bertsmith.certificate.golden.texts import RARE
from bertsmith.certificate.rows import Row, agreeing
from bertsmith.certificate.values import Values, golden_values
from bertsmith.data.inputs import assemble
from bertsmith.data.items import one_text, two_texts
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

_UNCASED = TokenizerConfig()
_CASED = TokenizerConfig(lowercase=False, strip_accents=False)
_CONFIGS = {"uncased": _UNCASED, "cased": _CASED}


def ordinary_texts() -> Row:
    """Texts in many languages, uncased and cased."""
    values = golden_values("tokenization")
    return _tokens(
        "tokens of texts in many languages",
        [(label, text) for label, text in values.items("ordinary")],
        reference="tokenization.py, FullTokenizer",
    )


def rare_rule(rule: str) -> Row:
    """One of the rules that popular tokenizers do not keep."""
    cases = golden_values("tokenization").each("rare", rule)
    return _tokens(
        rule,
        [(f"text {number}", text) for number, text in enumerate(cases, start=1)],
        reference="tokenization.py, BasicTokenizer and WordpieceTokenizer",
    )


def cut_texts() -> Row:
    """Single texts and pairs at many lengths: the end of the longer side is cut, a tie cuts B."""
    values = golden_values("inputs")
    cls_id, sep_id = values.integer("cls"), values.integer("sep")
    found, expected = {}, {}
    for case in values.each("cases"):
        num_a, limit = case.integer("tokens_a"), case.integer("limit")
        a = np.arange(10, 10 + num_a)
        if case.is_null("tokens_b"):
            name = f"{num_a} in {limit}"
            item = one_text(a, limit=limit, cls_id=cls_id, sep_id=sep_id, keep=(0, 0))
        else:
            num_b = case.integer("tokens_b")
            name = f"{num_a} and {num_b} in {limit}"
            b = np.arange(100, 100 + num_b)
            item = two_texts(a, b, limit=limit, cls_id=cls_id, sep_id=sep_id)
        found[name] = (item.token_ids.tolist(), item.segment_ids.tolist())
        expected[name] = (case.integers("ids").tolist(), case.integers("segments").tolist())
    return agreeing(
        "one text or two, cut to a length",
        found,
        expected,
        reference="run_classifier.py, convert_single_example and _truncate_seq_pair",
    )


def packed_texts() -> Row:
    """The same sequences as pre-training assembles them, end to end in one stream."""
    values = golden_values("inputs")
    whole = [case for case in values.each("cases") if _fits(case)]
    lengths = np.array([_content_lengths(case) for case in whole], dtype=np.int64)
    content = [np.arange(start, start + n) for row in lengths.tolist() for start, n in _sides(row)]
    ids, segments, totals = assemble(
        np.concatenate(content).astype(np.int32),
        lengths,
        values.integer("cls"),
        values.integer("sep"),
    )
    return agreeing(
        "sequences laid end to end",
        {
            "token ids": ids.tolist(),
            "segments": segments.tolist(),
            "lengths": totals.tolist(),
        },
        {
            "token ids": [n for case in whole for n in case.integers("ids").tolist()],
            "segments": [n for case in whole for n in case.integers("segments").tolist()],
            "lengths": [len(case.integers("ids")) for case in whole],
        },
        reference="paper, Figure 2; create_pretraining_data.py",
    )


def encoded_pair() -> Row:
    """The tokenizer's own layout of a text and of a pair."""
    tokenizer = Tokenizer(golden_values("tokenization").words("vocabulary"))
    text, pair = "my dog is cute", "he likes playing"
    first = ["[CLS]", "my", "dog", "is", "cute", "[SEP]"]
    second = ["he", "likes", "play", "##ing", "[SEP]"]
    found = {}
    for name, given in (("one text", None), ("two texts", pair)):
        encoding = tokenizer.encode(text, given)
        tokens = [tokenizer.token_of(int(each)) for each in encoding.ids]
        found[name] = (tokens, encoding.segments.tolist())
    return agreeing(
        "the example of Figure 2",
        found,
        {"one text": (first, [0] * 6), "two texts": ([*first, *second], [0] * 6 + [1] * 5)},
        reference="paper, Figure 2",
        against="[CLS] A [SEP] B [SEP], segments 0 and 1",
    )


def checks() -> list[Callable[[], Row]]:
    """Every check of this file."""

    def of_rule(rule: str) -> Callable[[], Row]:
        return lambda: rare_rule(rule)

    return [ordinary_texts, *map(of_rule, RARE), cut_texts, packed_texts, encoded_pair]


def _tokens(name: str, texts: Sequence[tuple[str, Values]], reference: str) -> Row:
    """The row of golden tokens, uncased and cased, text by text and all texts at once."""
    vocabulary = golden_values("tokenization").words("vocabulary")
    found, expected = {}, {}
    for kind, config in _CONFIGS.items():
        tokenizer = Tokenizer(vocabulary, config)
        flat, counts = tokenizer.ids([case.word("text") for _, case in texts])
        at_once = np.split(flat, np.cumsum(counts)[:-1])
        for (label, case), ids in zip(texts, at_once, strict=True):
            expected[f"{label}, {kind}"] = expected[f"{label}, {kind}, at once"] = case.words(kind)
            found[f"{label}, {kind}"] = tokenizer.tokenize(case.word("text"))
            found[f"{label}, {kind}, at once"] = [tokenizer.token_of(int(each)) for each in ids]
    return agreeing(name, found, expected, reference=reference)


def _fits(case: Values) -> bool:
    """Whether nothing was cut: assembly itself never cuts."""
    num_special = 2 if case.is_null("tokens_b") else 3
    return sum(_content_lengths(case)) + num_special <= case.integer("limit")


def _content_lengths(case: Values) -> tuple[int, int]:
    num_b = 0 if case.is_null("tokens_b") else case.integer("tokens_b")
    return case.integer("tokens_a"), num_b


def _sides(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """First token and number of tokens of A and of B."""
    return [(10, lengths[0]), (100, lengths[1])]
