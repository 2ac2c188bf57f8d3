"""Which head a checkpoint holds, what is said of it, and that it comes back to the bit."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.checkpoints import store
from bertsmith.checkpoints.misfits import Source
from bertsmith.checkpoints.task_heads import architecture_of, find_head, head_state
from tests.checkpoints.fine_tuned import ALL_HEADS, HEADS, fine_tuned
from tests.checkpoints.tiny import tiny_config, tiny_tokenizer

CONFIG = tiny_config()
POOLER = {"bert.pooler.dense.weight": torch.zeros(32, 32)}


def layer(name, num_labels, hidden_size=32):
    return {
        f"{name}.weight": torch.zeros(num_labels, hidden_size),
        f"{name}.bias": torch.zeros(num_labels),
    }


def found(tensors, config=CONFIG, is_original=False, **content):
    source = Source(where="models/mine", is_original=is_original)
    return find_head(tensors, content, config, source)


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("config", ALL_HEADS)
def test_a_head_its_labels_and_its_meaning_survive_saving_and_loading(tmp_path, config, direction):
    model, head = fine_tuned(config, direction=direction)
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    loaded = store.load(tmp_path / "m")
    assert loaded.notes == ()
    assert loaded.left_aside == ()
    assert loaded.config == model.config
    assert loaded.head is not None
    assert loaded.head.config == config
    assert not loaded.head.training
    for name, tensor in head.state_dict().items():
        assert torch.equal(loaded.head.state_dict()[name], tensor)
    store.save(tmp_path / "again", loaded.model, loaded.config, loaded.tokenizer, head=loaded.head)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_heads_of_pretraining_and_of_a_task_survive_together(tmp_path):
    from tests.checkpoints.tiny import tiny_model

    _, head = fine_tuned(HEADS["sequence_classification"])
    model = tiny_model()
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    loaded = store.load(tmp_path / "m", dtype=torch.bfloat16)
    assert loaded.model.objectives == ("masked_lm", "next_sentence")
    assert loaded.head is not None
    assert loaded.head.scores.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("kind", "direction", "architecture"),
    [
        ("sequence_classification", "bidirectional", "BertForSequenceClassification"),
        ("multiple_choice", "bidirectional", "BertForMultipleChoice"),
        ("token_classification", "left_to_right", "BertForTokenClassification"),
        ("question_answering", "left_to_right", "BertForQuestionAnswering"),
        ("multiple_choice", "left_to_right", "BertsmithLeftToRightForMultipleChoice"),
        ("token_classification", "right_to_left", "BertsmithRightToLeftForTokenClassification"),
    ],
)
def test_the_architecture_is_the_class_that_computes_the_same(kind, direction, architecture):
    assert architecture_of(HEADS[kind], tiny_config(direction=direction)) == architecture


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left", "two_way"])
@pytest.mark.parametrize("kind", HEADS)
def test_on_what_is_no_bert_no_head_is_named_as_if_it_were(kind, direction):
    lstm = tiny_config(layer_kind="lstm", direction=direction)
    assert architecture_of(HEADS[kind], lstm).startswith("BertsmithLstmFor")
    two_way = tiny_config(direction="two_way")
    assert architecture_of(HEADS[kind], two_way).startswith("BertsmithTwoWayFor")


@pytest.mark.parametrize(
    ("tensors", "architectures", "is_original", "kind"),
    [
        (layer("classifier", 3), ["BertForSequenceClassification"], False, "sequence"),
        (layer("classifier", 3), ["BertForTokenClassification"], False, "token"),
        (layer("classifier", 1), ["BertForMultipleChoice"], False, "multiple"),
        (layer("qa_outputs", 2), ["BertForQuestionAnswering"], False, "question"),
        (layer("qa_outputs", 2), None, False, "question"),
        (layer("classifier", 3), None, True, "sequence"),
        (layer("qa_outputs", 2), None, True, "question"),
        (
            layer("classifier", 3) | layer("qa_outputs", 2), ["BertForTokenClassification"], False,
            "token",
        ),
    ],
)  # fmt: skip
def test_the_tensors_and_the_architecture_tell_the_kind(tensors, architectures, is_original, kind):
    content = {} if architectures is None else {"architectures": architectures}
    head = found(tensors | POOLER, is_original=is_original, **content)
    assert head.config is not None
    assert head.config.kind.startswith(kind)
    assert head.notes == ()


@pytest.mark.parametrize(
    ("tensors", "content", "told"),
    [
        (layer("classifier", 3), {}, "architectures say nothing; write one of BertForSequence"),
        (layer("classifier", 3), {"architectures": ["BertModel"]}, "architectures say BertModel"),
        (
            layer("classifier", 3) | {"crf.transitions": torch.zeros(3, 3)},
            {"architectures": ["BertCRFForTokenClassification"]},
            "architectures say BertCRFForTokenClassification; .* there if it computes the same",
        ),
        (
            layer("qa_outputs", 2), {"architectures": ["BertJointForQuestionAnswering"]},
            "architectures say BertJointForQuestionAnswering",
        ),
        (layer("qa_outputs", 2), {"architectures": ["BertForMultipleChoice"]}, "cannot be told"),
        (layer("classifier", 3) | layer("qa_outputs", 2), {}, "classifier and qa_outputs is left"),
        (
            layer("classifier", 3), {"architectures": ["BertForMultipleChoice"]},
            r"shapes are \(3, 32\) and \(3,\), expected \(1, 32\) and \(1,\) for multiple choice",
        ),
        (layer("qa_outputs", 3), {}, r"expected \(2, 32\)"),
        (
            layer("classifier", 3, 64), {"architectures": ["BertForTokenClassification"]},
            r"expected \(3, 32\)",
        ),
    ],
)  # fmt: skip
def test_a_head_that_cannot_be_told_is_left_aside_with_the_reason(tensors, content, told):
    head = found(tensors | POOLER, **content)
    assert head.config is None
    (note,) = head.notes
    assert "left aside" in note
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(note)


def test_a_head_whose_pooled_vector_is_another_here_is_left_aside():
    said = {"architectures": ["BertForSequenceClassification"]}
    left = tiny_config(direction="left_to_right")
    (note,) = found(layer("classifier", 3) | POOLER, left, **said).notes
    assert "has seen only itself" in note
    (note,) = found(layer("classifier", 3), **said).notes
    assert "holds no pooler" in note


@pytest.mark.parametrize(
    ("content", "labels", "told"),
    [
        ({"id2label": {"1": "b", "0": "a"}}, ("a", "b"), None),
        ({"label2id": {"b": 1, "a": 0}}, ("a", "b"), None),
        ({}, ("LABEL_0", "LABEL_1"), None),
        ({"id2label": {"0": "LABEL_0"}}, ("LABEL_0", "LABEL_1"), None),
        ({"id2label": {"0": "x", "1": "y", "2": "z"}}, ("LABEL_0", "LABEL_1"), "names 3 labels"),
        ({"problem_type": "guessing"}, ("LABEL_0", "LABEL_1"), "problem_type 'guessing' is not"),
    ],
)
def test_labels_are_the_configs_or_it_is_told(content, labels, told):
    said = {"architectures": ["BertForTokenClassification"], **content}
    head = found(layer("classifier", 2), **said)
    assert head.config is not None
    assert head.config.labels == labels
    assert [told in note for note in head.notes] == [True] * bool(told)


@pytest.mark.parametrize(
    ("said", "dropout"), [(None, 0.2), (0.05, 0.05), (0, 0.0), (1, None), ("0.1", None)]
)
def test_the_classifiers_dropout_is_its_own_or_the_encoders(said, dropout):
    content = {"architectures": ["BertForTokenClassification"], "classifier_dropout": said}
    config = tiny_config(hidden_dropout_prob=0.2)
    if dropout is None:
        with pytest.raises(
            ValueError, match=r"models/mine: classifier_dropout in its config\.json is"
        ):
            found(layer("classifier", 2), config, **content)
    else:
        head = found(layer("classifier", 2), config, **content).config
        assert head is not None
        assert head.dropout == dropout


@pytest.mark.parametrize("config", ALL_HEADS)
def test_a_wrapped_model_keeps_its_head(tmp_path, config):
    model, head = fine_tuned(config)
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    file = tmp_path / "m/model.safetensors"
    save_file({f"module.{name}": each for name, each in load_file(file).items()}, file)
    loaded = store.load(tmp_path / "m")
    assert loaded.head is not None
    assert loaded.head.config == config
    assert loaded.notes == ()


def test_a_head_that_is_left_aside_is_named_beside_the_reason(tmp_path):
    model, head = fine_tuned(HEADS["token_classification"])
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    file = tmp_path / "m/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"architectures": ["BertModel"]}))
    loaded = store.load(tmp_path / "m")
    assert loaded.head is None
    assert loaded.left_aside == ("classifier.bias", "classifier.weight")
    assert "cannot be told" in loaded.notes[0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"bertsmith_layers": "lst"}, "there are no layers 'lst'; did you mean 'last'"),
        ({"bertsmith_layers": "concat-last-four"}, "needs a model of at least 4 layers"),
        ({"bertsmith_layers": "0,2"}, r"shapes are \(3, 32\) and \(3,\), expected \(3, 64\)"),
        ({"bertsmith_pooling": "max"}, "bertsmith_pooling is 'max', expected one of pooler, cls"),
    ],
)
def test_a_head_on_what_the_encoder_has_not_is_left_aside_with_the_reason(content, told):
    said = {"architectures": ["BertsmithFeaturesForTokenClassification"], **content}
    (note,) = found(layer("classifier", 3), **said).notes
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(note)


def test_no_head_has_no_state():
    assert head_state(None) == {}
    assert found({}).config is None
