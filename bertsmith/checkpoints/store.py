"""Any BERT -> a model, its config and its tokenizer; and these -> a directory in our own layout.

The layout written is the Hugging Face one, so that it loads in `transformers` and in every server
that reads its files: config.json, model.safetensors, vocab.txt, tokenizer.json,
tokenizer_config.json. Nothing is pickled, ever. It does not know what a run or a trainer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints import sentence_dense, sentence_transformers
from bertsmith.checkpoints.config_json import DIRECTION_FIELD, config_to_json
from bertsmith.checkpoints.left_aside import LeftAside, notes_on
from bertsmith.checkpoints.misfits import Source
from bertsmith.checkpoints.names import (
    DECODER,
    LM_HEAD,
    NEXT_SENTENCE_HEAD,
    POOLER,
    TOKEN_EMBEDDING,
    from_hugging_face,
    to_hugging_face,
)
from bertsmith.checkpoints.places import (
    CONFIG,
    WEIGHTS,
    find_model,
    is_checkpoint,
    unfinished_note,
)
from bertsmith.checkpoints.task_heads import fill_head, find_head, head_state
from bertsmith.checkpoints.weights import Weights, read_config, read_weights
from bertsmith.files import atomic_directory, write_json, write_text
from bertsmith.model.config import DIRECTION_OF, BertConfig, Objective
from bertsmith.model.heads import TaskHead
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.pooling import Dense
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.task import TaskHeadConfig
from bertsmith.tensor_files import save_tensors
from bertsmith.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A checkpoint in memory."""

    model: PretrainModel
    """The encoder and what the file holds of pooler and pre-training heads; evaluation mode, on
    the CPU."""
    config: BertConfig
    """The encoder's architecture."""
    tokenizer: Tokenizer
    """The vocabulary and rules it was trained with."""
    directory: Path
    """Where its files lie."""
    prefix: Path | None = None
    """The TensorFlow checkpoint, of perhaps several in the directory, that was asked for."""
    sentence: SentenceConfig | None = None
    """How sentence vectors are made, where the directory says so."""
    dense: Dense | None = None
    """The layer that `sentence` names, with its weights."""
    head: TaskHead | None = None
    """The head that fine-tuning added; its `config` says what it reads and names its labels."""
    notes: tuple[str, ...]
    """What was left aside or looks odd, a line each; empty for a checkpoint of our own."""
    left_aside: tuple[str, ...] = ()
    """Every tensor of the file that the model does not take: its name in the Hugging Face layout,
    or the one it has where TensorFlow wrote it."""

    @property
    def place(self) -> Path:
        """Where it is found again, and no other beside it."""
        return self.prefix or self.directory

    def task_head(self) -> TaskHead:
        """The head. Raises ValueError where the checkpoint has none."""
        if self.head is None:
            raise ValueError(
                f"{self.directory} holds no task head: fine-tune it first, with bertsmith finetune"
            )
        return self.head


def save(
    directory: str | Path,
    model: PretrainModel | Mapping[str, Tensor],
    config: BertConfig,
    tokenizer: Tokenizer,
    *,
    head: TaskHead | None = None,
    dtype: torch.dtype | None = None,
    card: str | None = None,
) -> None:
    """Writes a checkpoint atomically: the directory appears whole, or the older one stays.

    `model` may be the state of a PretrainModel; `head` is that of a task; `dtype` None keeps each
    tensor's own; `card` becomes README.md. A checkpoint already at `directory` is replaced with
    everything in it. Raises ValueError when the directory holds something else, so that nobody's
    files are deleted.
    """
    directory = Path(directory)
    if directory.exists() and not is_checkpoint(directory) and any(directory.iterdir()):
        raise ValueError(
            f"{directory} holds files and is no checkpoint; it would be replaced as a whole. "
            f"Choose an empty or a new directory"
        )
    with atomic_directory(directory) as temporary:
        write(temporary, model, config, tokenizer, head=head, dtype=dtype, card=card)


def write(
    directory: Path,
    model: PretrainModel | Mapping[str, Tensor],
    config: BertConfig,
    tokenizer: Tokenizer,
    *,
    head: TaskHead | None = None,
    dtype: torch.dtype | None = None,
    card: str | None = None,
) -> None:
    """Writes a checkpoint's files into an existing directory, one by one.

    For a caller that puts more beside them, such as a trainer's state, in one atomic directory.
    """
    state = model if isinstance(model, Mapping) else model.state_dict()
    written = {
        name: tensor.to(device="cpu", dtype=dtype or tensor.dtype)
        for name, tensor in to_hugging_face({**state, **head_state(head)}).items()
    }
    stored = str(Counter(tensor.dtype for tensor in written.values()).most_common(1)[0][0])
    objectives = _objectives(written, config)
    said = head.config if head is not None else None
    content = config_to_json(config, objectives, stored.removeprefix("torch."), said)
    write_json(directory / CONFIG, content)
    save_tensors(directory / WEIGHTS, written, {"format": "pt"})
    tokenizer.save(directory, max_tokens=config.max_position_embeddings)
    if card is not None:
        write_text(directory / "README.md", card)


def load(name_or_path: str | Path, *, dtype: torch.dtype = torch.float32) -> Loaded:
    """Reads any BERT by its name under `models/`, its path, or its Hub id, in this order.

    A run's directory stands for its newest checkpoint. Parameters come as `dtype`, whatever the
    file stores. The model gets the pooler and the pre-training heads that the file holds, `head` is
    the task's; what else it holds is left aside: `left_aside` names all of it, `notes` tells it in
    short. Raises FileNotFoundError when nothing is found; ValueError naming at once the missing
    config fields, or the missing, mis-shaped and unexpected tensors.
    """
    place = find_model(name_or_path)
    directory = place if place.is_dir() else place.parent
    sentence = sentence_transformers.read(directory)
    files = _files_at(place)
    config, config_notes = read_config(files)  # first: what is no BERT need not be read
    dense = sentence_dense.read(directory, sentence, config.hidden_size, dtype)
    weights = read_weights(files)
    config, decoder_notes = _as_stored(config, weights)
    found = find_head(weights.tensors, weights.config, config, weights.source)
    model, head, unused = _filled(config, found.config, weights, dtype)
    tokenizer = Tokenizer.load(tokenizer_directory(directory))
    left_aside = (*weights.left_aside, *unused)
    return Loaded(
        model=model,
        config=config,
        tokenizer=tokenizer,
        directory=directory,
        prefix=None if place.is_dir() else place,
        sentence=sentence,
        dense=dense,
        head=head,
        notes=(
            *filter(None, [unfinished_note(name_or_path, place)]),
            *config_notes,
            *decoder_notes,
            *_pooler_notes(config, weights),
            *found.notes,
            *_sentence_notes(sentence or SentenceConfig()),
            *notes_on(left_aside, str(name_or_path)),
            *_vocabulary_notes(tokenizer, config, weights.source),
            *tokenizer.notes,
        ),
        left_aside=tuple(name for group in left_aside for name in group.names),
    )


def read_encoder_config(place: Path) -> BertConfig:
    """The config of the model at a place that `find_model` gave, without a look at its weights.

    Raises FileNotFoundError or ValueError, naming the file, for a config that is missing or wrong.
    """
    return read_config(_files_at(place))[0]


def tokenizer_directory(directory: Path) -> Path:
    """Where a model's tokenizer files lie: in its directory, else beside its encoder."""
    has_own = any((directory / name).is_file() for name in ("vocab.txt", "tokenizer.json"))
    return directory if has_own else sentence_transformers.encoder_directory(directory)


def _files_at(place: Path) -> Path:
    """Where the encoder's files are: a directory, or the prefix of a TensorFlow checkpoint."""
    return sentence_transformers.encoder_directory(place) if place.is_dir() else place


def _filled(
    config: BertConfig, task: TaskHeadConfig | None, weights: Weights, dtype: torch.dtype
) -> tuple[PretrainModel, TaskHead | None, tuple[LeftAside, ...]]:
    """A model of exactly the parts that the file holds, the task's head, and what is left aside."""
    # Built without memory or initial values: every parameter is replaced by the file's.
    with torch.device("meta"):
        model = PretrainModel(
            config,
            _objectives(weights.tensors, config),
            with_pooler=any(name.startswith(POOLER) for name in weights.tensors),
        )
        head = TaskHead(config, task) if task is not None else None
    parts = {**model.state_dict(), **head_state(head)}
    expected = {name: tuple(value.shape) for name, value in parts.items()}
    state, unused = from_hugging_face(weights.tensors, expected, weights.source)
    state = {name: each.to(dtype) for name, each in state.items()}
    model.load_state_dict({name: state[name] for name in model.state_dict()}, assign=True)
    fill_head(head, state)
    return model.eval(), head, unused


def _as_stored(config: BertConfig, weights: Weights) -> tuple[BertConfig, tuple[str, ...]]:
    """The config with the decoder that the file holds, and a note where it is one of its own."""
    decoder, embedding = weights.tensors.get(DECODER), weights.tensors.get(TOKEN_EMBEDDING)
    if decoder is None or embedding is None or not config.tie_word_embeddings:
        return config, ()
    if decoder.shape != embedding.shape or torch.equal(decoder, embedding):
        return config, ()
    note = f"{DECODER} differs from the token embeddings: it is used as the decoder it is"
    return replace(config, tie_word_embeddings=False), (note,)


def _pooler_notes(config: BertConfig, weights: Weights) -> tuple[str, ...]:
    """What is not there, or reads another token than there; silent for a checkpoint of our own."""
    if DIRECTION_FIELD in weights.config:
        return ()
    if any(name.startswith(POOLER) for name in weights.tensors):
        if config.direction != "left_to_right":
            return ()
        return (
            "is_decoder makes it a left-to-right model, whose pooler reads the last token here; in "
            "transformers it reads the first, which has seen only itself, so that all texts have "
            "one pooled vector there",
        )
    missing = f"{weights.source.name(f'{POOLER}dense.weight')} and its bias"
    return (
        f"the file holds no pooler ({missing}): there are hidden states, but no pooled vectors",
    )


def _sentence_notes(sentence: SentenceConfig) -> tuple[str, ...]:
    if sentence.refusal:
        return (f"no sentence vectors as its author made them: {sentence.refusal}",)
    advice = sentence.advice_on_prompts
    return (f"its prompts are not put before texts: {advice}",) if advice else ()


def _objectives(tensors: Mapping[str, Tensor], config: BertConfig) -> tuple[Objective, ...]:
    """The objectives whose heads the file holds, by the names on disk."""
    found: list[Objective] = []
    if any(name.startswith(LM_HEAD) for name in tensors):
        found += [name for name, direction in DIRECTION_OF.items() if direction == config.direction]
    if any(name.startswith(NEXT_SENTENCE_HEAD) for name in tensors):
        found.append("next_sentence")
    return tuple(found)


def _vocabulary_notes(tokenizer: Tokenizer, config: BertConfig, source: Source) -> tuple[str, ...]:
    entries, rows = tokenizer.vocab_size, config.vocab_size
    if entries > rows:
        added = len(tokenizer.config.added_tokens)
        among = f", {added:,} of them added tokens" if added else ""
        raise ValueError(
            f"{source.where}: the vocabulary has {entries:,} entries{among}, but the model only "
            f"{rows:,} rows (vocab_size in {source.config}): they do not belong together"
        )
    if entries < rows:
        return (f"{rows - entries:,} rows of the token embedding stand for no vocabulary entry",)
    return ()
