"""The model card: front matter that the Hub reads, and nothing said that is not known."""

from dataclasses import replace

import pytest
from huggingface_hub import ModelCard

from bertsmith.checkpoints.card import Card, Origin
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from tests.checkpoints.tiny import CONFIG, tiny_config

CARD = Card(
    name="out/mini",
    format="hugging-face",
    config=CONFIG,
    objectives=("masked_lm", "next_sentence"),
    dtype="float32",
)


def front_matter(card):
    return ModelCard(card.text()).data.to_dict()


def test_the_front_matter_holds_what_is_known_and_nothing_else():
    assert front_matter(CARD) == {
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["bert", "bertsmith"],
    }
    known = replace(
        CARD, language="ko", license="cc-by-sa-4.0", base_model="google-bert/bert-base-uncased"
    )
    assert front_matter(known) == {
        **front_matter(CARD),
        "language": "ko",
        "license": "cc-by-sa-4.0",
        "base_model": "google-bert/bert-base-uncased",
    }
    assert "Converted from [google-bert/bert-base-uncased](https://huggingface.co/" in known.text()


@pytest.mark.parametrize(
    ("changes", "pipeline", "tag"),
    [
        ({"objectives": ()}, "feature-extraction", "bert"),
        ({"sentence": SentenceConfig()}, "sentence-similarity", "feature-extraction"),
        (
            {
                "objectives": ("left_to_right_lm",),
                "config": tiny_config(direction="left_to_right"),
            },
            "feature-extraction",
            "left-to-right",
        ),
        ({"format": "onnx", "outputs": ("logits",)}, "fill-mask", "onnx"),
        ({"format": "tensorflow"}, "fill-mask", "tensorflow"),
    ],
)
def test_the_hub_files_a_model_under_what_it_answers(changes, pipeline, tag):
    found = front_matter(replace(CARD, **changes))
    assert found["pipeline_tag"] == pipeline
    assert tag in found["tags"]


def test_the_text_says_what_the_model_is():
    text = CARD.text()
    assert "\n# mini\n" in text
    assert "2 layers of 32, 4 heads, a vocabulary of 25, with the heads masked language model " in (
        text
    )
    assert "reads at most 24 tokens" in text
    assert "The licence of its weights is not known here." in text
    assert "not known" not in replace(CARD, license="mit").text()
    sentence = SentenceConfig(pooling=("cls", "mean"), is_normalized=True, max_tokens=9)
    told = replace(CARD, sentence=sentence).text()
    assert "A sentence vector is cls and mean pooling, brought to length 1." in told
    dense = replace(sentence, dense=DenseConfig(in_features=64, out_features=1024))
    assert (
        "A sentence vector is cls and mean pooling, then a dense layer to 1,024 (tanh), brought to "
        "length 1." in replace(CARD, sentence=dense).text()
    )
    assert "reads at most 9 tokens" in told
    for title in ("## Results", "## Data", "## Recipe"):
        assert title not in text


def test_what_a_run_knows_stands_in_its_sections():
    origin = Origin(
        data=("corpus `books`",), recipe=("`bertsmith pretrain books`",),
        results=(("loss", "3.960 nats"), ("accuracy", "32.8%")),
    )  # fmt: skip
    text = replace(CARD, origin=origin).text()
    assert "A BERT pre-trained from raw text by bertsmith" in text
    assert "## Results\n\n| on held-out documents | |\n|---|---|\n| loss | 3.960 nats |\n" in text
    assert "## Data\n\n- corpus `books`\n" in text
    assert "## Recipe\n\n- `bertsmith pretrain books`\n" in text
    assert "## Results" not in replace(CARD, origin=replace(origin, results=())).text()


def test_the_use_is_that_of_the_format_and_of_the_heads():
    assert "bertsmith predict fill-mask --model out/mini 'A sentence with one [MASK] in it.'" in (
        CARD.text()
    )
    assert "pipeline(\"fill-mask\", model='out/mini')" in CARD.text()
    bare = replace(CARD, objectives=()).text()
    assert "AutoModel.from_pretrained('out/mini')" in bare
    assert "fill-mask --model" not in bare
    assert "--init_checkpoint bert_model.ckpt" in replace(CARD, format="tensorflow").text()
    onnx = replace(CARD, format="onnx", outputs=("last_hidden_state",))
    assert "folder = 'out/mini'" in onnx.text()
    assert "tokenizer.enable_truncation(24)" in onnx.text()
    assert "folder = snapshot_download('me/mini')" in (
        replace(onnx, name="me/mini", is_on_hub=True).text()
    )
