"""A run may begin with token embeddings counted from its text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.corpus.store import Corpus
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.first_vectors import FILE_NAME, begin_with_first_vectors, write_first_vectors
from bertsmith.runs.training import Trainee, trainee
from bertsmith.train.config import Precision
from tests.checkpoints.tiny import tiny_config
from tests.commands.small_run import write_text

EMBEDDING, BIAS = "bert.embeddings.token.weight", "masked_lm.bias"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("vectors")
    choices = TextChoices(vocab_size=200, held_out=0.2, reading=ReadingChoices(workers=1))
    return Corpus.open(
        corpus_of([write_text(folder / "text")], choices, folder, Console(quiet=True))
    )


def run_of(corpus: Corpus, precision: Precision = "fp32") -> PretrainRun:
    model = replace(tiny_config(), vocab_size=corpus.tokenizer().vocab_size)
    phases = (Phase(steps=9, sequence_length=16, batch_size=2),)
    return replace(mini_cpu(), model=model, phases=phases, warmup_steps=1, precision=precision)


def begun(run: PretrainRun) -> Trainee:
    return trainee(run, torch.device("cpu"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_embeddings_point_where_their_vectors_do_and_are_as_long_as_those_drawn(
    corpus: Corpus, tmp_path: Path, precision: Precision
) -> None:
    run = run_of(corpus, precision)
    write_first_vectors(tmp_path, run, corpus)
    drawn, trained = begun(run).optimizer.masters(), begun(run)
    begin_with_first_vectors(tmp_path, trained, corpus)
    vectors = torch.from_numpy(np.load(tmp_path / FILE_NAME))
    has_vector = vectors.any(dim=1)
    assert 0 < has_vector.sum() < len(vectors)
    masters, weights = trained.optimizer.masters(), trained.model.state_dict()
    length = drawn[EMBEDDING].norm(dim=1).mean()
    torch.testing.assert_close(masters[EMBEDDING][has_vector], vectors[has_vector] * length)
    assert masters[EMBEDDING][~has_vector].equal(drawn[EMBEDDING][~has_vector])
    for name in (EMBEDDING, BIAS):
        assert weights[name].equal(masters[name].to(weights[name].dtype))
    others = set(masters) - {EMBEDDING, BIAS}
    assert all(masters[name].equal(drawn[name]) for name in others)


def test_the_output_bias_alone_predicts_the_unigram_shares(corpus: Corpus, tmp_path: Path) -> None:
    run = run_of(corpus)
    write_first_vectors(tmp_path, run, corpus)
    trained = begun(run)
    begin_with_first_vectors(tmp_path, trained, corpus)
    shares = corpus.token_counts / corpus.token_counts.sum()
    predicted = trained.optimizer.masters()[BIAS].softmax(dim=0).numpy()
    seen = corpus.token_counts > 0
    np.testing.assert_allclose(predicted[seen], shares[seen], rtol=0.05)
    assert predicted[~seen].max() < shares[seen].min()


def test_without_the_file_nothing_begins(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="first-vectors"):
        begin_with_first_vectors(tmp_path, begun(run_of(corpus)), corpus)
