"""Writes the TensorFlow checkpoints that stand beside this file, with TensorFlow itself.

    python -m tests.checkpoints.golden.make_tensorflow      # written with tensorflow-cpu 2.21.0

`google/` is a tiny BERT as google-research/bert leaves it: variables under the original's names,
the optimizer's beside them, one data file. `types/` holds one variable of every type, in two data
files, one of them partitioned. The tests read the names and the values from here, and need no
TensorFlow.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

DIRECTORY = Path(__file__).parent
GOOGLE = DIRECTORY / "google" / "bert_model.ckpt"
TYPES = DIRECTORY / "types" / "types.ckpt"

CONFIG = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 32,
    "max_position_embeddings": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
    "type_vocab_size": 2, "vocab_size": 40,
}  # fmt: skip
WORDS = (
    "the a of in is was my his her dog cat man woman store milk bottle went bought gallon cute "
    "likes play ##ing ##s ##ed he she they capital france paris . , ? !"
)
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split())
GLOBAL_STEP = 1_000_000


def variables() -> dict[str, tuple[int, ...]]:
    """Shapes of the variables that modeling.py and run_pretraining.py make, by their names."""
    hidden, inner, vocabulary = 8, 32, 40
    shapes: dict[str, tuple[int, ...]] = {
        "bert/embeddings/word_embeddings": (vocabulary, hidden),
        "bert/embeddings/token_type_embeddings": (2, hidden),
        "bert/embeddings/position_embeddings": (16, hidden),
        "bert/embeddings/LayerNorm/gamma": (hidden,),
        "bert/embeddings/LayerNorm/beta": (hidden,),
        "cls/predictions/output_bias": (vocabulary,),
        "cls/predictions/transform/LayerNorm/gamma": (hidden,),
        "cls/predictions/transform/LayerNorm/beta": (hidden,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }
    dense = {
        "bert/pooler/dense": (hidden, hidden),
        "cls/predictions/transform/dense": (hidden,) * 2,
    }
    for number in range(2):
        layer = f"bert/encoder/layer_{number}"
        for name in ("self/query", "self/key", "self/value", "output/dense"):
            dense[f"{layer}/attention/{name}"] = (hidden, hidden)
        dense[f"{layer}/intermediate/dense"] = (hidden, inner)
        dense[f"{layer}/output/dense"] = (inner, hidden)
        for name in ("attention/output/LayerNorm", "output/LayerNorm"):
            shapes |= {f"{layer}/{name}/gamma": (hidden,), f"{layer}/{name}/beta": (hidden,)}
    for name, shape in dense.items():
        shapes |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
    return shapes


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers between -1 and 1 in steps of 1/128, exact in every floating-point type here."""
    first = zlib.crc32(name.encode())
    numbers = (first + 131 * np.arange(int(np.prod(shape)), dtype=np.int64)) % 257 - 128
    return (numbers / 128).astype(np.float32).reshape(shape)


def google_arrays() -> dict[str, np.ndarray]:
    """Everything in `google/`, under the original's names."""
    arrays: dict[str, np.ndarray] = {"global_step": np.array(GLOBAL_STEP, np.int64)}
    for name, shape in variables().items():
        for full_name in (name, f"{name}/adam_m", f"{name}/adam_v"):
            arrays[full_name] = values(full_name, shape)
    return arrays


def type_arrays() -> dict[str, np.ndarray]:
    """What numpy can hold of `types/`; bfloat16 as the float32 of the same values."""
    small = np.arange(-3, 5).reshape(2, 4)
    return {
        "types/float32": values("types/float32", (3, 5)),
        "types/float64": small / 3.0,
        "types/float16": (small / 8).astype(np.float16),
        "types/bfloat16": (small / 8).astype(np.float32),
        "types/int8": small.astype(np.int8),
        "types/int16": small.astype(np.int16) * 1000,
        "types/int32": small.astype(np.int32) * 1_000_000,
        "types/int64": small.astype(np.int64) << 40,
        "types/uint8": small.astype(np.uint8),
        "types/uint16": small.astype(np.uint16),
        "types/uint32": small.astype(np.uint32),
        "types/uint64": small.astype(np.uint64),
        "types/bool": small > 0,
        "types/empty": np.zeros((0, 3), np.float32),
        "types/scalar": np.array(7.5, np.float32),
    }


def main() -> None:
    import tensorflow as tf

    GOOGLE.parent.mkdir(exist_ok=True)
    TYPES.parent.mkdir(exist_ok=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, array in google_arrays().items():
            tf.compat.v1.get_variable(name, initializer=array, use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        saver.save(session, str(GOOGLE), write_meta_graph=False, write_state=False)
    (GOOGLE.parent / "bert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (GOOGLE.parent / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")

    arrays = {name: tf.constant(array) for name, array in type_arrays().items()}
    arrays["types/bfloat16"] = tf.cast(arrays["types/bfloat16"], tf.bfloat16)
    arrays["types/string"] = tf.constant([b"no", b"numbers"])
    arrays["types/complex64"] = tf.constant([1j, 2.0], tf.complex64)
    names = sorted(arrays)
    halves = [f"{TYPES}.half-{number}" for number in range(2)]
    for number, half in enumerate(halves):
        chosen = names[number::2]
        slices = ["" for _ in chosen]
        tensors = [arrays[name] for name in chosen]
        # Rows 2 * number and the next of a variable of shape (4, 3).
        chosen.append("types/partitioned")
        slices.append(f"4 3 {2 * number},2:-")
        tensors.append(tf.constant(values("types/partitioned", (4, 3))[2 * number :][:2]))
        tf.raw_ops.SaveV2(
            prefix=half, tensor_names=chosen, shape_and_slices=slices, tensors=tensors
        )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=halves, destination_prefix=str(TYPES), delete_old_dirs=False
    )


if __name__ == "__main__":
    main()
