"""What is known of a model -> its card: README.md with the front matter that the Hub understands.

A card says what the model is, what it was made of and how, its figures, how to use it, and where it
ends; what is not known is not said. It does not read runs: whoever knows one hands in an `Origin`.

Source: the Hub's model card metadata (huggingface_hub.ModelCardData).
"""

from __future__ import annotations

from dataclasses import dataclass

from huggingface_hub import ModelCardData

from bertsmith.checkpoints.card_usage import PIPELINES, usage
from bertsmith.checkpoints.formats import Format, NumberType
from bertsmith.checkpoints.original_card import OriginalCard
from bertsmith.model.config import BertConfig, Objective
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.task import TaskHeadConfig, unnamed_labels

_LIBRARIES: dict[Format, str | None] = {
    "hugging-face": "transformers",
    "sentence-transformers": "sentence-transformers",
    "onnx": "onnx",
    "tensorflow": None,
}
_LAYOUTS: dict[Format, str] = {
    "hugging-face": "safetensors in the Hugging Face layout",
    "sentence-transformers": "safetensors in the sentence-transformers layout",
    "onnx": "one ONNX graph for any number of texts of any length",
    "tensorflow": "a TensorFlow checkpoint under the names of google-research/bert",
}
_MEANINGS: dict[Objective, str] = {
    "masked_lm": "masked language model",
    "next_sentence": "next sentence",
    "left_to_right_lm": "left-to-right language model",
    "right_to_left_lm": "right-to-left language model",
}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a run knows of the model it made; each line is Markdown."""

    data: tuple[str, ...]
    """The texts: counts and the fingerprint of the corpus."""
    recipe: tuple[str, ...]
    """The command, steps, rates and versions."""
    results: tuple[tuple[str, str], ...]
    """(what was measured on held-out documents, the figure)."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card tells."""

    name: str
    """As it is loaded: the directory's name, or USER/NAME on the Hub."""
    is_on_hub: bool = False
    """Whether the name is one on the Hub."""
    format: Format
    """What the files beside the card are."""
    config: BertConfig
    objectives: tuple[Objective, ...]
    """The heads of pre-training that are in the files."""
    head: TaskHeadConfig | None = None
    """The head of a task that is in the files."""
    dtype: NumberType
    """What numbers are stored as."""
    sentence: SentenceConfig | None = None
    """How sentence vectors are made; only for a format that says it."""
    outputs: tuple[str, ...] = ()
    """What an ONNX graph gives."""
    base_model: str | None = None
    """The Hub id of the model that was converted, where it came from there."""
    language: str | None = None
    """ISO code of the texts' language."""
    license: str | None = None
    """The Hub's name of the weights' licence."""
    origin: Origin | None = None
    """What the run that made it knows."""
    original: OriginalCard | None = None
    """The card of the model it was made of: language and licence hold unless others are given."""

    @property
    def longest(self) -> int:
        """The longest text in tokens, special tokens included."""
        positions = self.config.max_position_embeddings
        said = self.sentence.max_tokens if self.sentence is not None else None
        return positions if said is None else min(positions, said)

    def text(self) -> str:
        """The whole README.md."""
        parts = [
            f"---\n{self.front_matter()}\n---",
            f"# {self.name.rstrip('/').rpartition('/')[2]}",
            self._description(),
            "## Use it",
            *usage(self),
            *self._known(),
            "## Limits",
            self._limits(),
            *self._about_original(),
        ]
        return "\n\n".join(parts) + "\n"

    def front_matter(self) -> str:
        """The YAML between the dashes."""
        before = self.original or OriginalCard(metadata={}, body="")
        left_to_right = self.config.direction == "left_to_right"
        tags = ["bert", "bertsmith", *(("onnx",) if self.format == "onnx" else ())]
        tags += ["tensorflow"] if self.format == "tensorflow" else []
        tags += ["feature-extraction"] if self.sentence is not None else []
        tags += ["left-to-right"] if left_to_right else []
        return ModelCardData(
            language=self.language or before.language,
            license=self.license or before.license,
            license_name=None if self.license else before.license_name,
            license_link=None if self.license else before.license_link,
            library_name=_LIBRARIES[self.format],
            pipeline_tag=self._pipeline(),
            base_model=self.base_model,
            tags=tags,
        ).to_yaml()

    def _pipeline(self) -> str:
        if self.sentence is not None:
            return "sentence-similarity"
        if self.head is not None:
            return PIPELINES[self.head.kind]
        return "fill-mask" if "masked_lm" in self.objectives else "feature-extraction"

    def _description(self) -> str:
        config = self.config
        meanings = [_MEANINGS[objective] for objective in self.objectives]
        meanings += [self.head.kind.replace("_", " ")] if self.head is not None else []
        heads = " and ".join(meanings)
        made = "A BERT pre-trained from raw text by bertsmith" if self.origin else "A BERT"
        text = (
            f"{made}: {config.num_hidden_layers} layers of {config.hidden_size}, "
            f"{config.num_attention_heads} heads, a vocabulary of {config.vocab_size:,}, "
            f"{f'with the heads {heads}' if heads else 'the encoder alone'}; {self.dtype}, "
            f"{_LAYOUTS[self.format]}, written by bertsmith."
        )
        if self.base_model:
            text += (
                f" Converted from [{self.base_model}](https://huggingface.co/{self.base_model})."
            )
        if self.head is not None and self.head.labels != unnamed_labels(self.head.num_labels):
            text += f" Its labels are {', '.join(self.head.labels)}."
        if self.sentence is not None:
            ends = ", brought to length 1" if self.sentence.is_normalized else ""
            then = f", then {self.sentence.dense}" if self.sentence.dense is not None else ""
            pooling = " and ".join(self.sentence.pooling)
            text += f" A sentence vector is {pooling} pooling{then}{ends}."
        return text

    def _known(self) -> list[str]:
        if self.origin is None:
            return []
        rows = "\n".join(f"| {name} | {figure} |" for name, figure in self.origin.results)
        parts = ["## Results", f"| on held-out documents | |\n|---|---|\n{rows}"] if rows else []
        for title, lines in (("Data", self.origin.data), ("Recipe", self.origin.recipe)):
            if lines:
                parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
        return parts

    def _limits(self) -> str:
        text = (
            f"It reads at most {self.longest:,} tokens at once, and it repeats what its texts say, "
            f"their errors and prejudices included. It understands text and does not write it."
        )
        is_known = self.license or (self.original is not None and self.original.license)
        return text if is_known else f"{text} The licence of its weights is not known here."

    def _about_original(self) -> list[str]:
        if self.original is None or not self.original.body.strip():
            return []
        told = "The card of the model that was converted; its files and its usage are not these."
        return ["## About the original model", told, self.original.section()]
