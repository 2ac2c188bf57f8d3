import pytest

from bertsmith.checkpoints.tensorflow_names import google_name, hugging_face_name, is_transposed
from tests.checkpoints.golden.make_tensorflow import variables

HEADS = ("output_weights", "output_bias", "cls/squad/output_weights", "cls/squad/output_bias")


def test_every_variable_of_the_original_has_one_name_here_and_back():
    names = [*variables(), *HEADS]
    translated = [hugging_face_name(name) for name in names]
    assert None not in translated
    assert len(set(translated)) == len(names)
    assert [google_name(name) for name in translated] == names


@pytest.mark.parametrize(
    ("google", "hugging_face"),
    [
        ("bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight"),
        ("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
        (
            "bert/encoder/layer_11/attention/self/query/kernel",
            "bert.encoder.layer.11.attention.self.query.weight",
        ),
        (
            "bert/encoder/layer_0/attention/output/LayerNorm/beta",
            "bert.encoder.layer.0.attention.output.LayerNorm.bias",
        ),
        ("bert/encoder/layer_3/output/dense/bias", "bert.encoder.layer.3.output.dense.bias"),
        ("bert/pooler/dense/kernel", "bert.pooler.dense.weight"),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
        ("output_weights", "classifier.weight"),
        ("cls/squad/output_bias", "qa_outputs.bias"),
    ],
)
def test_names_are_those_of_both_projects(google, hugging_face):
    assert hugging_face_name(google) == hugging_face
    assert google_name(hugging_face) == google


@pytest.mark.parametrize(
    "name",
    [
        "bert/encoder/layer_01/output/dense/bias", "bert/encoder/layer_#/output/dense/bias",
        "bert/encoder/layer_/output/dense/bias", "bert/pooler/dense/kernel/adam_m", "global_step",
        "bert/encoder/layer_0/output/dense/gamma", "albert/pooler/dense/kernel", "",
    ],
)  # fmt: skip
def test_other_names_have_none(name):
    assert hugging_face_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "cls.predictions.decoder.weight", "bert.embeddings.position_ids", "classifier",
        "bert.encoder.layer.#.output.dense.bias", "bert.encoder.layer.00.output.dense.bias",
    ],
)  # fmt: skip
def test_a_parameter_that_the_original_lacks_has_no_name(name):
    assert google_name(name) is None


def test_kernels_alone_are_transposed():
    turned = {name.rpartition("/")[2] for name in [*variables(), *HEADS] if is_transposed(name)}
    assert turned == {"kernel"}
