"""A corpus -> a file of first token embeddings in a run's directory -> the model that begins there.

Made once, before run.json, and read by every process: so all begin with the same bits, and so does
a run that was killed before its first checkpoint. The output bias, which is the score of a token
wherever nothing else is known, begins as the logarithm of the token's frequency.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from bertsmith.array_files import write_array
from bertsmith.corpus.cooccurrence import token_vectors
from bertsmith.corpus.store import Corpus
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.training import Trainee

FILE_NAME = "first-vectors.npy"

_EMBEDDING = "bert.embeddings.token.weight"
_BIAS = "masked_lm.bias"
_UNSEEN = 0.5  # occurrences of a token that never occurs


def write_first_vectors(directory: Path, run: PretrainRun, corpus: Corpus) -> None:
    """Counts the corpus and writes `first-vectors.npy`, (V, H) float32, atomically."""
    vectors = token_vectors(corpus, run.model.hidden_size, run.seed)
    write_array(directory / FILE_NAME, vectors)


@torch.no_grad()
def begin_with_first_vectors(directory: Path, trained: Trainee, corpus: Corpus) -> None:
    """Puts the vectors in place of the embeddings that were drawn, and as long as those were.

    Tokens without a vector keep what was drawn. Raises FileNotFoundError where no file is.
    """
    vectors = torch.from_numpy(np.load(directory / FILE_NAME))
    counts = torch.from_numpy(corpus.token_counts).double().clamp(min=_UNSEEN)
    bias = (counts / counts.sum()).log().float()
    masters, weights = trained.optimizer.masters(), trained.model.state_dict()
    embedding = masters[_EMBEDDING]
    length = embedding.norm(dim=1).mean()
    rows = vectors.any(dim=1).nonzero().flatten()
    embedding[rows.to(embedding.device)] = vectors[rows].to(embedding) * length
    masters[_BIAS].copy_(bias)
    for name in (_EMBEDDING, _BIAS):
        weights[name].copy_(masters[name])
