"""What a checkpoint's tensors lack, hold otherwise or too much -> one error, in the file's words.

The names and shapes told are those that stand in the file: a TensorFlow checkpoint has others than
the Hugging Face layout. It does not know what a model needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bertsmith.checkpoints.left_aside import listed
from bertsmith.checkpoints.tensorflow_names import google_name, is_transposed


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where tensors come from, for whoever tells a person about them."""

    where: str = "the checkpoint"
    """Its path."""
    is_original: bool = False
    """Whether it is one of google-research/bert."""

    @property
    def config(self) -> str:
        """How its config is called."""
        return "bert_config.json" if self.is_original else "config.json"

    def name(self, hugging_face: str) -> str:
        """How a tensor of the Hugging Face layout is called in it."""
        return (google_name(hugging_face) if self.is_original else None) or hugging_face

    def shape(self, hugging_face: str, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that it has there."""
        turned = self.is_original and is_transposed(self.name(hugging_face))
        return tuple(reversed(shape)) if turned else tuple(shape)


class Misshapen(NamedTuple):
    """A tensor of another shape or of another kind of numbers than is needed."""

    name: str
    found: Sequence[int] | str
    expected: Sequence[int] | str


class MisfitError(ValueError):
    """A checkpoint's tensors are not those of the model that its config describes.

    The message names a dozen of each kind; the attributes, and the traceback, hold all.
    """

    def __init__(
        self,
        source: Source,
        *,
        missing: Sequence[str] = (),
        misshapen: Sequence[Misshapen] = (),
        unexpected: Sequence[str] = (),
        not_finite: Sequence[str] = (),
    ) -> None:
        """Takes names of the Hugging Face layout; `unexpected` ones may have a reason behind."""
        self.missing = tuple(map(source.name, missing))
        """Tensors that the model needs and the file lacks."""
        self.misshapen = tuple(_told(each, source) for each in misshapen)
        """Tensors that are there, each with what it is and what it should be."""
        self.unexpected = tuple(map(source.name, unexpected))
        """Tensors of an encoder that the config does not describe."""
        self.not_finite = tuple(map(source.name, not_finite))
        """Tensors that hold a NaN or an infinity."""
        titles = {
            "missing": self.missing,
            f"not as {source.config} says": self.misshapen,
            "unexpected": self.unexpected,
            "NaN or infinite": self.not_finite,
        }
        found = {title: each for title, each in titles.items() if each}
        faults = "; ".join(f"{title}: {listed(each)}" for title, each in found.items())
        is_another = self.missing or self.misshapen or self.unexpected
        beginning = (
            f"does not hold the BERT that its {source.config} describes"
            if is_another
            else "holds weights that are no numbers, and could only answer so"
        )
        advice = (
            f"Copy or convert the checkpoint again, or correct its {source.config}"
            if is_another
            else "Copy it again, or take an earlier checkpoint of its training"
        )
        if any(listed(each) != ", ".join(each) for each in found.values()):
            advice += (
                ". All names are in the traceback (BERTSMITH_TRACEBACK=1), and in this error's "
                "attributes missing, misshapen, unexpected and not_finite"
            )
        super().__init__(f"{source.where} {beginning}; {faults}. {advice}")
        for title, each in found.items():
            self.add_note(f"{title} ({len(each):,}): {', '.join(each)}")


def _told(each: Misshapen, source: Source) -> str:
    found, expected = (
        size if isinstance(size, str) else f"shape {source.shape(each.name, size)}"
        for size in (each.found, each.expected)
    )
    return f"{source.name(each.name)} has {found}, expected {expected.removeprefix('shape ')}"
