"""The golden files: made again to the byte, by code that shares nothing with what they certify."""

from __future__ import annotations

import ast
import math
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch

from bertsmith.certificate import golden
from bertsmith.certificate.golden import make, modeling, optimization
from bertsmith.certificate.golden.tokenization import CASED, UNCASED, Rules, tokenize
from bertsmith.certificate.values import golden_values
from tests.text import original
from tests.text.texts import NASTY_PIECES, VOCABULARY

FOLDER = Path(golden.__file__).parent


def test_making_the_files_again_gives_the_committed_bytes(tmp_path: Path) -> None:
    make.main(tmp_path)
    committed = {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == committed
    assert set(committed) == {f"{name}.json" for name in make.VALUES}


def test_the_files_are_small_and_lie_in_the_package() -> None:
    sizes = [
        len(resources.files(golden).joinpath(f"{name}.json").read_bytes()) for name in make.VALUES
    ]
    assert sum(sizes) < 100_000


def test_the_restated_original_imports_nothing_that_it_certifies() -> None:
    allowed = ("bertsmith.certificate.golden.", "bertsmith.certificate.golden")
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                imported = [str(node.module)]
            for name in imported:
                assert name not in ("torch", "tokenizers", "transformers"), (path.name, name)
                assert not name.startswith("bertsmith") or name.startswith(allowed), path.name


@pytest.mark.parametrize("rules", [UNCASED, CASED])
def test_both_restatements_of_the_tokenizer_agree_on_texts_that_break_tokenizers(
    rules: Rules,
) -> None:
    vocabulary = frozenset(VOCABULARY)
    for first in NASTY_PIECES:
        for text in (first, f"a{first}b", f"한{first} {first}Σ", f"my dog{first}.{first}"):
            words = original.basic_tokens(
                text, lowercase=rules.lowercase, strip_accents=rules.strip_accents
            )
            expected = original.wordpiece_tokens(words, vocabulary)
            assert tokenize(text, vocabulary, rules) == expected, repr(text)


def test_the_restated_attention_is_torchs_own() -> None:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(2, 5, 8))
    values = {
        f"a/{part}/{kind}": random.normal(size=(8, 8) if kind == "kernel" else (8,))
        for part in ("query", "key", "value")
        for kind in ("kernel", "bias")
    }
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    adder = (1.0 - np.repeat(mask[:, None], 5, axis=1)) * modeling.HIDDEN_KEY
    found = modeling.attention(values.__getitem__, "a", hidden, adder, 2)
    heads = [
        torch.from_numpy(hidden @ values[f"a/{part}/kernel"] + values[f"a/{part}/bias"])
        .view(2, 5, 2, 4)
        .transpose(1, 2)
        for part in ("query", "key", "value")
    ]
    visible = torch.from_numpy(mask)[:, None, None, :].bool()
    context = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=visible)
    expected = context.transpose(1, 2).reshape(2, 5, 8).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_golden_figures_are_those_that_are_known() -> None:
    assert optimization.truncated_normal_deviation(0.02) == pytest.approx(0.0176, abs=5e-5)
    counts = golden_values("masking").integers("num_to_predict")
    first = golden_values("masking").integer("first_length")
    assert [counts[n - first] for n in (5, 128, 512)] == [1, 19, 77]
    values = golden_values("encoder").at("activations")
    apart = np.abs(values.numbers("gelu") - values.numbers("gelu_tanh")).max()
    assert apart == pytest.approx(4.7e-4, abs=0.3e-4)
    fates = golden_values("masking").at("per_token", "fates")
    total = sum(fates.number(kind) for kind in ("mask", "kept", "random"))
    assert fates.number("mask") / total == pytest.approx(0.8, abs=0.02)
    pairs = golden_values("pairs").numbers("by_sentences_a_document", "2", "mean")
    assert pairs[1] / pairs[0] == pytest.approx(0.67, abs=0.02)


def test_the_optimizer_s_first_update_moves_nothing_and_some_gradients_are_clipped() -> None:
    updates = list(golden_values("optimizer").each("updates"))
    start = golden_values("optimizer").at("variables")
    for name, value in updates[0].items("variables"):
        assert np.array_equal(value.numbers(), start.numbers(name))
    norms = [update.number("norm") for update in updates]
    assert min(norms) < 1.0 < max(norms)
    assert all(math.isfinite(norm) for norm in norms)
