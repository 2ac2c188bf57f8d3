"""A model whose vocabulary has grown is read by `transformers`: the same ids, the same logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertsmith import cli
from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import store
from bertsmith.fusion import unfused
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import VOCABULARY, tiny_config
from tests.commands.small_run import write_text

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

ENTRIES = (*VOCABULARY[:1], "[unused0]", "[unused1]", *VOCABULARY[1:], *"qwertyuiopsdfghjklzxcvbnm")
PIECES = tuple(f"##{letter}" for letter in "qwertyuiopasdfghjklzxcvbnm")
WORDS = ("neuron", "zurich", "teacher", "boat", "apples")
TEXTS = (
    "The teacher of Paris likes neurons.",
    "a boat, two boats; neuron neuronal neur",
    "Zürich (zurich) paints apples: pineapples",
)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest checkpoint of a run that went on with new words, and its model before."""
    folder = tmp_path_factory.mktemp("grown")
    entries = (*ENTRIES, *PIECES)
    config = tiny_config(vocab_size=len(entries), max_position_embeddings=32)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.3, seed=5)
    store.save(folder / "before", model, config, Tokenizer(entries))
    (folder / "words.txt").write_text("\n".join(WORDS))
    asked = (
        "pretrain", write_text(folder / "text"), "--from", folder / "before",
        "--add-words", folder / "words.txt", "--phases", "2x32x4", "--warmup-steps", "0",
        "--workers", "1", "--threads", "1", "--precision", "fp32", "--out", folder / "run",
    )  # fmt: skip
    threads = torch.get_num_threads()
    with unfused():
        assert cli.main([str(word) for word in asked]) == 0
    torch.set_num_threads(threads)
    return folder / "run" / "checkpoints" / "step-00000002"


def test_both_tokenizers_give_the_same_ids_and_new_words_are_one(grown: Path) -> None:
    ours = Tokenizer.load(grown)
    theirs = transformers.AutoTokenizer.from_pretrained(grown)
    assert len(theirs) == ours.vocab_size == len(ENTRIES) + len(PIECES) + 3
    for text in TEXTS:
        assert theirs(text)["input_ids"] == list(ours.encode(text).ids)
    for row, word in zip((1, 2), WORDS, strict=False):
        assert theirs.convert_tokens_to_ids(word) == ours.id_of(word) == row
        assert theirs.tokenize(word) == [word]
    assert theirs.tokenize("neuronal") == ["neuron", "##a", "##l"]
    # vocab.txt alone, as other libraries read it, has the same rows.
    entries = (grown / "vocab.txt").read_text("utf-8").splitlines()
    assert tuple(entries) == ours.vocabulary


def test_the_grown_model_computes_the_same_logits_there(grown: Path) -> None:
    loaded = store.load(grown)
    peer = transformers.BertForPreTraining.from_pretrained(grown).eval()
    assert peer.config.vocab_size == loaded.config.vocab_size == loaded.tokenizer.vocab_size
    encodings = loaded.tokenizer.encode_batch([(text, "the boat .") for text in TEXTS])
    width = max(len(each.ids) for each in encodings)
    ids, mask, types = (torch.zeros((len(TEXTS), width), dtype=torch.long) for _ in range(3))
    for row, each in enumerate(encodings):
        real = slice(0, len(each.ids))
        ids[row, real] = torch.as_tensor(list(each.ids))
        types[row, real] = torch.as_tensor(list(each.segments))
        mask[row, real] = 1
    packed = PackedBatch.from_padded(ids.numpy(), mask.numpy(), types.numpy())
    with torch.no_grad(), unfused():
        theirs = peer(input_ids=ids, attention_mask=mask, token_type_ids=types)
        stream, model = Stream.of(packed), loaded.model
        hidden = model.bert(stream)
        words = model.masked_lm(hidden, model.bert.embeddings.token.weight)
        nexts = model.next_sentence(model.bert.pool(hidden, stream))
    # fp32 sums in another order; logits here reach several units.
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(words, theirs.prediction_logits[mask.bool()], **close)
    torch.testing.assert_close(nexts, theirs.seq_relationship_logits, **close)
