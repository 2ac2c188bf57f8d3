"""The command: a file in, a file out, in order, and every mistake before the model is loaded."""

import gzip
import io
import json
import re
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import tyro
from rich.console import Console
from safetensors.torch import load_file

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import sentence_transformers, store
from bertsmith.commands import stages
from bertsmith.commands.extract import extract
from bertsmith.commands.extract_options import Extract
from bertsmith.commands.extract_report import Report, lines
from bertsmith.features import extraction
from bertsmith.features.plan import FeaturePlan
from bertsmith.features.vectors import Layout
from bertsmith.fusion import unfused
from bertsmith.inference import Predictor
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.stream import Stream
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_model, tiny_tokenizer

TEXTS = ["the dogs was playing .", "", "my hairy cat " * 12, "paris ?"]
LIMIT = CONFIG.max_position_embeddings


@pytest.fixture
def jsonl(tmp_path):
    lines = [json.dumps({"body": text, "key": f"k{n}"}) for n, text in enumerate(TEXTS)]
    path = tmp_path / "texts.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def run_of(file, model, out, **options):
    plan = FeaturePlan(**options.pop("plan", {}))
    return Extract(file=file, model=model, out=out, plan=plan, device="cpu", **options)


def shown(run):
    """What it prints, and its report."""
    file = io.StringIO()
    report = extract(run, Console(file=file, width=300))
    return file.getvalue(), report


def plain(text):
    """The last hidden states of one text alone."""
    ids = tiny_tokenizer().encode(text, add_special_tokens=False).ids[: LIMIT - 2]
    ids = np.array([tiny_tokenizer().cls_id, *ids, tiny_tokenizer().sep_id])
    with torch.no_grad(), unfused():
        return tiny_model().bert(Stream.of(PackedBatch.from_padded(ids[None]))).numpy()


def test_the_command_line_is_made_of_the_plan():
    arguments = ["a.csv", "--model", "m", "--out", "o.npz", "--layers", "0,2", "--per", "word"]
    assert tyro.cli(Extract, args=arguments) == Extract(
        file=Path("a.csv"), model="m", out=Path("o.npz"), plan=FeaturePlan(layers="0,2", per="word")
    )


def test_parquet_has_every_text_in_order_with_its_vectors(model, jsonl, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "TEXTS_AT_ONCE", 2)
    out = tmp_path / "new" / "a.parquet"
    printed, report = shown(run_of(jsonl, model, out, text_field="body", id_field="key"))
    rows = pq.read_table(out).to_pylist()
    assert [row["text"] for row in rows] == TEXTS
    assert [row["id"] for row in rows] == ["k0", "k1", "k2", "k3"]
    for row, text in zip(rows, TEXTS, strict=True):
        np.testing.assert_allclose(np.array(row["vectors"]), plain(text), atol=2e-6)
        in_text = [text[s:e].lower() for s, e in zip(row["starts"], row["ends"], strict=True)]
        assert in_text == [piece.removeprefix("##") for piece in ["", *row["pieces"][1:-1], ""]]
    assert [row["num_unread"] for row in rows] == [0, 0, 36 - LIMIT + 2, 0]
    assert report == Report(
        texts=4, empty=1, tokens=7 + 22 + 2, unread_texts=1, unread_tokens=14, vectors=31 + 8
    )
    assert "39 vectors of 32 float32 numbers, of 4 texts with 31 tokens" in printed
    assert "1 of 4 texts were longer than the 24 tokens that are read at once: 14 tokens" in printed
    assert "1 of 4 texts hold no token; their rows are kept" in printed


def test_one_text_is_counted_as_one(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog " * LIMIT + "\n")
    printed, _ = shown(run_of(tmp_path / "a.txt", model, tmp_path / "a.npz"))
    assert f"{LIMIT} vectors of 32 float32 numbers, of 1 text with {LIMIT - 2} tokens" in printed
    assert f"1 of 1 text was longer than the {LIMIT} tokens that are read at once" in printed


def test_the_file_says_how_it_was_made(model, jsonl, tmp_path):
    plan = {"layers": "-1,0", "per": "text", "long_texts": "window"}
    extract(run_of(jsonl, model, tmp_path / "a.parquet", text_field="body", plan=plan))
    found = {
        k.decode(): v.decode() for k, v in pq.read_schema(tmp_path / "a.parquet").metadata.items()
    }
    assert re.fullmatch(r"bertsmith \d+\.\d+\.\d+ extract", found.pop("made_by"))
    assert found.pop("vocabulary") == tiny_tokenizer().fingerprint
    assert found == {
        "model": model, "input": str(jsonl), "layers": "-1,0", "layer_numbers": "2,0",
        "weights": "", "per": "text", "pooling": "mean", "dense": "none",
        "is_normalized": "False",
        "dtype": "float32", "hidden_size": "32", "computed_in": "float32",
        "long_texts": "window", "max_tokens": "24", "stride_tokens": "11",
    }  # fmt: skip


def test_arrays_split_by_their_lengths_are_the_texts(model, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    for name in ("a.npz", "a.safetensors"):
        extract(run_of(tmp_path / "a.txt", model, tmp_path / name))
    tensors = {
        name: tensor.numpy() for name, tensor in load_file(tmp_path / "a.safetensors").items()
    }
    with np.load(tmp_path / "a.npz") as arrays:
        assert all(np.array_equal(arrays[name], tensor) for name, tensor in tensors.items())
    ends = np.cumsum(tensors["lengths"])
    assert ends[-1] == len(tensors["vectors"])
    for part, text in zip(np.split(tensors["vectors"], ends[:-1]), TEXTS, strict=True):
        np.testing.assert_allclose(part, plain(text), atol=2e-6)


def test_windows_read_all_of_a_long_text_and_are_reported(model, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    plan = {"per": "word", "long_texts": "window", "stride_tokens": 6}
    printed, report = shown(run_of(tmp_path / "a.txt", model, tmp_path / "a.npz", plan=plan))
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["lengths"].tolist() == [5, 0, 36, 2]
        assert not arrays["num_unread"].any()
    assert (report.windowed_texts, report.windows, report.unread_tokens) == (1, 4, 0)
    assert "read in 4 windows, a new one every 6 tokens" in printed


def test_one_vector_a_text_for_a_table_of_sentences(model, tmp_path):
    pq.write_table(pa.table({"text": [*TEXTS, None]}), tmp_path / "a.parquet")
    run = run_of(tmp_path / "a.parquet", model, tmp_path / "b.parquet", plan={"per": "text"})
    _, report = shown(run)
    table = pq.read_table(tmp_path / "b.parquet")
    assert table.column("id").to_pylist() == ["0", "1", "2", "3", "4"]
    expected = np.stack([plain(text).mean(axis=0) for text in [*TEXTS, ""]])
    np.testing.assert_allclose(np.stack(table.column("vector").to_numpy()), expected, atol=2e-6)
    assert report.empty == 2


def test_a_sentence_models_own_way_is_followed_and_said_unless_overruled(model, tmp_path):
    own = SentenceConfig(pooling=("cls", "max"), is_normalized=True, max_tokens=8)
    shutil.copytree(model, tmp_path / "m")
    sentence_transformers.write(tmp_path / "m", own, CONFIG.hidden_size)
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    run = run_of(tmp_path / "a.txt", str(tmp_path / "m"), tmp_path / "a.npz", plan={"per": "text"})
    printed, report = shown(run)
    assert "as the model was trained: pooling cls and max, length 1, at most 8 tokens" in printed
    expected = Predictor.load(tmp_path / "m", precision="fp32").sentence_vectors(TEXTS)
    assert report.unread_tokens == sum(each.num_unread for each in expected) == 31
    with np.load(tmp_path / "a.npz") as arrays:
        vectors = [each.vector for each in expected]
        np.testing.assert_allclose(arrays["vectors"], vectors, atol=2e-6)
        said = json.loads(str(arrays["metadata"]))
    assert (said["pooling"], said["is_normalized"], said["max_tokens"]) == ("cls,max", "True", "8")
    plan = {"per": "text", "pooling": "mean", "is_normalized": False, "max_tokens": LIMIT}
    run = run_of(tmp_path / "a.txt", str(tmp_path / "m"), tmp_path / "b.npz", plan=plan)
    assert "as the model was trained" not in shown(run)[0]
    with np.load(tmp_path / "b.npz") as arrays:
        means = [plain(text).mean(axis=0) for text in TEXTS]
        np.testing.assert_allclose(arrays["vectors"], means, atol=2e-6)


def test_only_texts_of_a_sentence_model_that_cannot_be_followed_are_refused(model, tmp_path):
    shutil.copytree(model, tmp_path / "m")
    sentence_transformers.write(tmp_path / "m", SentenceConfig(), CONFIG.hidden_size)
    modules = json.loads((tmp_path / "m/modules.json").read_text())
    modules.append({"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"})
    (tmp_path / "m/modules.json").write_text(json.dumps(modules))
    (tmp_path / "a.txt").write_text("the dog\n")
    out, named = tmp_path / "a.npz", str(tmp_path / "m")
    run = run_of(tmp_path / "a.txt", named, out, plan={"per": "token"})
    assert "note: no sentence vectors as its author made them" in shown(run)[0]
    assert out.exists()
    for chosen in ({"pooling": "mean"}, {}):
        run = run_of(tmp_path / "a.txt", named, out, force=True, plan={"per": "text", **chosen})
        if chosen:
            shown(run)
        else:
            with pytest.raises(ValueError, match="the module '2_LSTM'"):
                shown(run)


def test_nothing_is_said_of_a_model_that_has_no_way_of_its_own(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog\n")
    run = run_of(tmp_path / "a.txt", model, tmp_path / "a.npz", plan={"per": "text"})
    assert "as the model was trained" not in shown(run)[0]


def test_words_that_the_model_does_not_know_are_told(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog\n\u0645\u0631\u062d\u0628\u0627\n", "utf-8")
    told, _ = shown(run_of(tmp_path / "a.txt", model, tmp_path / "a.npz"))
    assert "note: 1 of the 3 tokens that were read are [UNK]" in told


def test_decomposed_hangul_is_named(tmp_path):
    tokenizer = Tokenizer([*VOCABULARY[:-1], "개"], TokenizerConfig(strip_accents=False))
    store.save(tmp_path / "m", tiny_model(), CONFIG, tokenizer)
    (tmp_path / "a.txt").write_text("the dog\n" + unicodedata.normalize("NFD", "개\n"), "utf-8")
    told, _ = shown(run_of(tmp_path / "a.txt", str(tmp_path / "m"), tmp_path / "a.npz"))
    assert "note: 1 of the 2 texts that were read hold Hangul that is decomposed" in told


def test_a_terminal_gets_a_bar_and_a_file_the_time_it_took(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog\n" * 50)
    run = run_of(tmp_path / "a.txt", model, tmp_path / "a.npz")
    file = io.StringIO()
    extract(run, Console(file=file, force_terminal=True, width=120))
    assert "100%" in file.getvalue()
    assert "50 texts, 100 tokens" in file.getvalue()
    (tmp_path / "a.npz").unlink()
    assert shown(run)[0].startswith("extract: done in ")


def test_malformed_rows_are_left_out_and_counted_where_that_is_asked_for(model, tmp_path):
    path, out = tmp_path / "pairs.tsv", tmp_path / "a.parquet"
    path.write_text("text\tlabel\nthe dog 1\nmy cat\t0\nparis\t1\n?\t1\t2\n")
    with pytest.raises(ValueError, match=r"pairs\.tsv:2: 1 column, .* with --skip-malformed"):
        extract(run_of(path, model, out))
    printed, report = shown(run_of(path, model, out, skip_malformed=True))
    found = pq.read_table(out)
    assert found["text"].to_pylist() == ["my cat", "paris"]
    assert found["id"].to_pylist() == ["1", "2"]  # as they stand in the file, from 0
    assert report.malformed == 2
    _, listed = printed.split("2 malformed rows left out:\n")
    assert [line.split(", expected")[0] for line in listed.splitlines()] == [
        f"  {path}:2: 1 column", f"  {path}:5: 3 columns",
    ]  # fmt: skip


def test_no_more_than_a_hundred_malformed_rows_are_listed(tmp_path):
    report = Report()
    for number in range(103):
        report.leave_out(f"fault {number}.")
    (tmp_path / "a.npz").write_bytes(b"")
    layout = Layout(per="token", width=2, dtype="float32", metadata={"max_tokens": "24"})
    told = list(lines(report, tmp_path / "a.npz", layout, 1.0))
    assert [told[-1 - each][:9] for each in (101, 100, 1, 0)] == [
        "103 malfo", "  fault 0", "  fault 9", "  and 3 m",
    ]  # fmt: skip


def test_a_bar_moves_with_every_batch(model, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "_SECONDS_BETWEEN_LINES", 0.0)
    (tmp_path / "a.txt").write_text("the dog likes my cat\n" * 2000)
    printed, report = shown(run_of(tmp_path / "a.txt", model, tmp_path / "a.npz"))
    lines = [line for line in printed.splitlines() if "tokens/s" in line and "%" in line]
    assert len(lines) > 3  # of the 2,000 texts, which are computed together
    shares = [int(re.search(r"(\d+)%", line)[1]) for line in lines]
    assert shares == sorted(shares)
    assert shares[0] < 50
    assert shares[-1] == 100
    assert "2,000 texts, 10,000 tokens" in lines[-1]
    assert report.texts == 2000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file": "late.csv"}, r"late\.csv:3: 1 column, expected 2"),
        ({"out": "a.bin"}, r"found the extension '\.bin'"),
        ({"out": "folder.npz"}, "is a directory"),
        ({"out": "old.npz"}, r"old\.npz exists: name another file, or replace it with --force"),
        ({"text_field": "txt"}, r"no column 'txt'; did you mean 'text'\?.* with --text-field"),
        ({"id_field": "key", "out": "a.parquet"}, "no column 'key'.* right one with --id-field"),
        ({"id_field": "id"}, "holds arrays in the order of the input and no ids"),
        ({"file": "empty.txt"}, r"empty\.txt: the file has no rows"),
        ({"plan": {"dtype": "bfloat16"}}, "has no bfloat16"),
        ({"out": "texts.csv/a.npz"}, "texts.csv is no directory"),
    ],
)
def test_a_mistake_is_told_before_any_model_is_looked_for(options, message, tmp_path):
    (tmp_path / "texts.csv").write_text("id,text\n1,the dog\n")
    (tmp_path / "late.csv").write_text("id,text\n1,the dog\n2\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "old.npz").write_text("")
    (tmp_path / "folder.npz").mkdir()
    options = dict(options)  # pytest gives every run the same one
    file, out = tmp_path / options.pop("file", "texts.csv"), tmp_path / options.pop("out", "a.npz")
    with pytest.raises(ValueError, match=message):
        extract(run_of(file, "no/such/model", out, **options))


def test_the_input_is_never_written_over(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    with pytest.raises(ValueError, match=r"a\.parquet is the input: name another file"):
        extract(run_of(path, "no/such/model", tmp_path / "b" / ".." / "a.parquet", force=True))


def test_half_the_precision_is_computed_only_where_it_is_asked_for(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dogs was playing .\n")
    for precision in ("fp32", "bf16"):
        run = run_of(tmp_path / "a.txt", model, tmp_path / f"{precision}.npz", precision=precision)
        extract(run)
    with np.load(tmp_path / "fp32.npz") as exact, np.load(tmp_path / "bf16.npz") as rounded:
        assert json.loads(str(rounded["metadata"]))["computed_in"] == "bfloat16"
        difference = np.abs(exact["vectors"] - rounded["vectors"]).max()
        assert 1e-4 < difference < 0.2  # states of size 1 to 4, eight bits of precision, two layers


def test_force_replaces_what_is_there(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog\n")
    (tmp_path / "a.npz").write_text("older")
    extract(run_of(tmp_path / "a.txt", model, tmp_path / "a.npz", force=True))
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["vectors"].shape == (4, 32)


def test_a_bad_row_in_the_middle_is_named_and_leaves_no_file(model, tmp_path):
    (tmp_path / "a.tsv").write_text("text\tid\nthe dog\t1\nthe cat\n")
    with pytest.raises(ValueError, match=r"a\.tsv:3: 1 column, expected 2"):
        extract(run_of(tmp_path / "a.tsv", model, tmp_path / "a.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_a_row_whose_id_is_null_is_named_and_leaves_no_file(model, tmp_path):
    rows = [{"text": "the dog", "id": 0}, {"text": "the cat", "id": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"a\.jsonl:2: column 'id' names no text, found null"):
        extract(run_of(tmp_path / "a.jsonl", model, tmp_path / "a.parquet", id_field="id"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_layers_that_the_model_lacks_are_told_before_the_first_text(model, tmp_path):
    (tmp_path / "a.txt").write_text("the dog\n")
    run = run_of(tmp_path / "a.txt", model, tmp_path / "a.npz", plan={"layers": "concat-last-four"})
    with pytest.raises(ValueError, match="needs a model of at least 4 layers, this one has 2"):
        extract(run)
    assert not (tmp_path / "a.npz").exists()
