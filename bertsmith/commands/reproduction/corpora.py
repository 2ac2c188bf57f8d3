"""Text -> the corpora that experiments read, one a vocabulary: cased, uncased or both.

What was made before of the same text is found again; what another process makes is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bertsmith.commands.paths import require_destination, require_text
from bertsmith.commands.preparation import corpus_of, is_corpus, is_of_other_text
from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.text_options import TextChoices, VocabularyChoices
from bertsmith.commands.typed import require_there
from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.files import InUseError, claimed
from bertsmith.recipes.experiments.experiment import Experiment, Pretrained, models_of
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.runs.progress import say

SECONDS_BETWEEN_LOOKS = 5.0
"""At what other processes hold."""


def require_readable(options: Reproduce) -> None:
    """Raises FileNotFoundError or ValueError for text that is not there or cannot be read."""
    require_there(options.text)
    texts = () if is_corpus(options.text) else options.text
    require_destination(options.out, texts, "the experiments'")
    require_text(texts, "name text alone, or one corpus alone")


def cases_of(
    experiments: Sequence[Experiment], sets: ExamSets, options: Reproduce
) -> Sequence[bool]:
    """Which corpora are read, by whether they are cased; those of cells without examples are not.

    Raises ValueError where one finished corpus would have to be two.
    """
    cells = (cell for experiment in experiments for _, _, cell in experiment.cells())
    models = (model for cell in cells if not sets.lacks(cell) for model in models_of(cell))
    needed = sorted({model.cased for model in models if isinstance(model, Pretrained)})
    if is_corpus(options.text) and len(needed) > 1:
        raise ValueError(
            f"{options.text[0]} is a finished corpus, and a cased one is needed beside an uncased "
            f"one: name the text that it was made of"
        )
    return needed


def corpora_there(
    needed: Sequence[bool], scale: Scale, options: Reproduce
) -> dict[bool, Path] | None:
    """Those that were made before, of this text; None where one is missing.

    Raises ValueError for text that cannot be read, and where one is of other text: finished runs
    stand on it.
    """
    if is_corpus(options.text):
        return dict.fromkeys(needed, options.text[0])
    corpora = {cased: _place(cased, scale, options) / "corpus" for cased in needed}
    for cased, corpus in corpora.items():
        choices = _choices(cased, scale, options)
        if (corpus / MANIFEST).is_file() and is_of_other_text(corpus, options.text, choices):
            raise ValueError(
                f"{corpus} was made of other text, or by other options of reading it, and the runs "
                f"in {options.out} stand on it: choose another directory with --out"
            )
    is_whole = all((corpus / MANIFEST).is_file() for corpus in corpora.values())
    return corpora if is_whole else None


def made_corpus(cased: bool, scale: Scale, options: Reproduce, console: Console) -> Path:
    """A corpus with its vocabulary, found or made; another process that makes it is waited for."""
    place, is_told = _place(cased, scale, options), False
    while True:
        try:
            with claimed(place):
                return corpus_of(options.text, _choices(cased, scale, options), place, console)
        except InUseError:
            if not is_told:
                say(console, f"another process makes {place}: waiting for it")
            is_told = True
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _place(cased: bool, scale: Scale, options: Reproduce) -> Path:
    name = f"{'cased' if cased else 'uncased'}-{_vocab_size(cased, scale)}"
    return options.out / "text" / name


def _choices(cased: bool, scale: Scale, options: Reproduce) -> TextChoices:
    return TextChoices(
        vocab_size=_vocab_size(cased, scale),
        vocabulary=VocabularyChoices(cased=cased),
        reading=options.reading,
    )


def _vocab_size(cased: bool, scale: Scale) -> int:
    return scale.cased_vocab_size if cased else scale.vocab_size
