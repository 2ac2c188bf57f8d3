"""`bertsmith pretrain --from MODEL`: going on from a BERT, its vocabulary, sizes and weights."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.checkpoints import store
from bertsmith.corpus.store import Corpus
from bertsmith.data.plan import Plan
from bertsmith.files import read_json
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.runs.directory import read_record
from bertsmith.runs.evaluation import evaluate, held_out_batches
from bertsmith.runs.training import held_out_rules
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.log import read_metrics
from tests.checkpoints.tiny import tiny_config
from tests.commands.small_run import FURTHER, TOY, write_text
from tests.commands.small_task import bertsmith

WORDS = ("teachers", "Fürst", "the", "boats")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("further") / "text")


@pytest.fixture(scope="module")
def model(text: Path) -> Path:
    """A run whose model is gone on from."""
    run = text.parent / "model"
    assert bertsmith("pretrain", text, *TOY, "--out", run) == 0
    return run


@pytest.fixture(scope="module")
def further(text: Path, model: Path) -> Path:
    run = text.parent / "further"
    assert bertsmith("pretrain", text, "--from", model, *FURTHER, "--out", run) == 0
    return run


@pytest.fixture(scope="module")
def with_words(text: Path, model: Path) -> Path:
    run, words = text.parent / "with-words", text.parent / "words.txt"
    words.write_text("\n".join(WORDS), "utf-8")
    asked = ("pretrain", text, "--from", model, "--add-words", words, *FURTHER, "--out", run)
    assert bertsmith(*asked) == 0
    return run


def saved(directory: Path, model: PretrainModel, tokenizer: Tokenizer) -> Path:
    store.save(directory, model, model.config, tokenizer)
    return directory


def test_a_run_begins_where_its_model_ended(model: Path, further: Path) -> None:
    rows = [row for row in read_metrics(further / "metrics.jsonl") if "evaluation_loss" in row]
    assert [row["step"] for row in rows] == [0, 3, 6]
    ended = [row for row in read_metrics(model / "metrics.jsonl") if "evaluation_loss" in row][-1]
    figures = {name for name in ended if name.startswith("evaluation")}
    assert "evaluation_next_loss" in figures
    for name in figures:
        assert rows[0][name] == pytest.approx(ended[name], rel=1e-6)
    assert rows[-1]["evaluation_loss"] != rows[0]["evaluation_loss"]


@pytest.mark.parametrize(
    ("form", "place"), [("hugging-face", ""), ("tensorflow", ""), ("tensorflow", "bert_model.ckpt")]
)
def test_a_model_of_any_format_is_gone_on_from(
    text: Path, model: Path, further: Path, tmp_path: Path, form: str, place: str
) -> None:
    assert bertsmith("convert", model, tmp_path / "model", "--to", form) == 0
    run = tmp_path / "run"
    asked = ("pretrain", text, "--from", tmp_path / "model" / place, *FURTHER, "--out", run)
    assert bertsmith(*asked) == 0
    rows, others = (read_metrics(each / "metrics.jsonl") for each in (run, further))
    for name in ("evaluation_loss", "evaluation_next_loss"):
        assert rows[0][name] == others[0][name]
    assert store.load(run).tokenizer.vocabulary == store.load(model).tokenizer.vocabulary


def test_sizes_vocabulary_and_casing_are_the_models(model: Path, further: Path) -> None:
    before, after = store.load(model), store.load(further)
    assert after.config == before.config
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    assert after.model.objectives == before.model.objectives


def test_the_defaults_are_for_going_on(further: Path) -> None:
    run = read_record(further).run
    assert run.name == "further"
    assert run.optimizer.learning_rate == 0.0012  # 5e-5 of BASE, 24 times as wide
    assert not run.count_embeddings
    assert not run.tile_positions
    assert not (further / "first-vectors.npy").exists()
    assert (run.dropout, run.masking.rate) == (True, 0.15)


def test_the_record_the_readme_and_the_card_say_what_it_went_on_from(
    model: Path, further: Path, tmp_path: Path
) -> None:
    record, readme = read_record(further), (further / "README.md").read_text("utf-8")
    place = (model / "checkpoints" / "step-00000024").resolve()
    assert record.model == str(place)
    assert len(record.model_fingerprint) == 64
    assert record.ancestry[0].startswith("model: step 24 of 24 of `")
    for told in (f"further, from `{place}` on", record.model_fingerprint, "before the first step"):
        assert told in readme
    assert "model.hidden_size" not in readme  # the recipe has no size to differ from
    assert bertsmith("convert", further, tmp_path / "card", "--to", "hugging-face") == 0
    card = (tmp_path / "card" / "README.md").read_text("utf-8")
    assert record.model_fingerprint[:16] in card
    assert "`runs" not in card
    of_others = read_json(model / "run.json")
    assert not {"model", "model_fingerprint", "ancestry"} & of_others.keys()
    assert "from" not in of_others["request"]


def test_new_words_are_entries_of_the_run_and_of_its_corpus(model: Path, with_words: Path) -> None:
    before, after = store.load(model), store.load(with_words)
    added = ("teachers", "furst", "boats")
    assert after.tokenizer.vocabulary == (*before.tokenizer.vocabulary, *added)
    assert after.config.vocab_size == before.config.vocab_size + 3
    assert Corpus.open(with_words / "corpus").tokenizer().fingerprint == after.tokenizer.fingerprint
    record = read_record(with_words)
    told = " ".join(record.notes)
    assert "new entries for 3 words: 0 in place of [unused] ones, 3 behind the last" in told
    assert "Fürst -> furst" in told
    assert "(1): the" in told


def test_the_held_out_score_before_the_first_step_is_that_of_the_grown_model(
    model: Path, with_words: Path
) -> None:
    record, loaded = read_record(with_words), store.load(model)
    old = loaded.tokenizer
    state = dict(loaded.model.state_dict())
    for name in ("bert.embeddings.token.weight", "masked_lm.bias"):
        rows = [
            state[name][list(old.encode(word, add_special_tokens=False).ids)].mean(dim=0)
            for word in ("teachers", "furst", "boats")
        ]
        state[name] = torch.cat([state[name], torch.stack(rows)])
    grown = PretrainModel(record.run.model, record.run.objectives)
    grown.load_state_dict(state)
    held_out = Corpus.open(record.corpus, "held_out")
    rules = held_out_rules(record.run, record.run.phases[0], held_out.num_documents)
    found = evaluate(grown, held_out_batches(Plan(held_out, rules), 24))
    row = read_metrics(with_words / "metrics.jsonl")[0]
    assert row["step"] == 0
    assert row["evaluation_loss"] == pytest.approx(found.loss, rel=1e-6)


def test_the_same_command_shows_the_finished_run_and_another_model_is_another_run(
    text: Path, model: Path, further: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("pretrain", text, "--from", model, *FURTHER, "--out", further)
    assert bertsmith(*asked) == 0
    assert "finished after 6 steps" in capsys.readouterr().out
    earlier = model / "checkpoints" / "step-00000023"
    assert bertsmith("pretrain", text, "--from", earlier, *FURTHER, "--out", further) == 2
    assert "holds another run" in capsys.readouterr().err


def test_a_corpus_of_the_models_vocabulary_is_taken_and_another_refused(
    model: Path, with_words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*FURTHER]
    del options[options.index("--held-out") : options.index("--held-out") + 2]
    asked = ("pretrain", with_words / "corpus", *options, "--plan-only", "--out", tmp_path)
    assert bertsmith(*asked, "--from", with_words) == 0
    assert bertsmith(*asked, "--from", model) == 2
    assert "was built with another vocabulary than that of" in capsys.readouterr().err


def test_other_words_replace_the_vocabulary_that_was_laid_there_but_no_persons(
    text: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, run = tmp_path / "words.txt", tmp_path / "run"
    asked = ("pretrain", text, "--from", model, "--add-words", words, *FURTHER)
    for number, word in enumerate(("teachers", "boats")):
        words.write_text(word)
        assert bertsmith(*asked, "--plan-only", "--out", run) == 0
        assert Tokenizer.load(run / "vocab").vocabulary[-1] == word
        assert Corpus.open(run / "corpus").tokenizer().vocabulary[-1] == word
        assert ("replaced by that of" in capsys.readouterr().out) is bool(number)
    entries = (run / "vocab" / "vocab.txt").read_text("utf-8")
    shutil.rmtree(run / "vocab")
    (run / "vocab").mkdir()
    (run / "vocab" / "vocab.txt").write_text(entries.replace("boats", "goats"), "utf-8")
    assert bertsmith(*asked, "--plan-only", "--out", run) == 2
    assert "was put there or edited" in capsys.readouterr().err


def test_heads_that_the_model_lacks_are_drawn_by_the_seed_and_told(
    text: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = store.load(model)
    bare = PretrainModel(loaded.config, ())
    bare.load_state_dict({name: loaded.model.state_dict()[name] for name in bare.state_dict()})
    saved(tmp_path / "bare", bare, loaded.tokenizer)
    run = tmp_path / "run"
    asked = ("pretrain", text, "--from", tmp_path / "bare", *FURTHER, "--phases", "1x32x8")
    assert bertsmith(*asked, "--warmup-steps", "0", "--seed", "7", "--out", run) == 0
    shown = capsys.readouterr().out
    for part in ("language-model head", "next-sentence head", "pooler"):
        assert f"a new {part}, drawn by seed 7: the model holds none" in shown
    drawn = PretrainModel(loaded.config, ("masked_lm", "next_sentence"))
    initialise(drawn, std=loaded.config.initializer_range, seed=7)
    found = store.load(run).model.state_dict()
    # A step at the peak rate moves a weight by little more than that rate.
    dense = "masked_lm.dense.weight"
    assert (found[dense] - drawn.state_dict()[dense]).abs().max() < 0.01


def test_what_the_run_does_not_train_is_left_aside_and_told(
    text: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("pretrain", text, "--from", model, "--objectives", "masked_lm", *FURTHER)
    assert bertsmith(*asked, "--plan-only", "--out", tmp_path) == 0
    assert "not part of the run's model: next-sentence head, pooler" in capsys.readouterr().out


def test_rows_without_an_entry_stay_and_words_take_them_first(
    text: Path, model: Path, tmp_path: Path
) -> None:
    loaded = store.load(model)
    rows = loaded.config.vocab_size
    wide = PretrainModel(replace(loaded.config, vocab_size=rows + 2), loaded.model.objectives)
    initialise(wide, std=0.02, seed=1)
    saved(tmp_path / "wide", wide, loaded.tokenizer)
    (tmp_path / "words").write_text("teachers\nboats\ndogs\n")
    asked = ("pretrain", text, "--from", tmp_path / "wide", *FURTHER, "--out", tmp_path / "run")
    assert bertsmith(*asked, "--add-words", tmp_path / "words") == 0
    assert store.load(tmp_path / "run").config.vocab_size == rows + 3


def untrained(directory: Path, like: Path, **changes: object) -> Path:
    """A model with the vocabulary of another, of another kind and without a next-sentence head."""
    tokenizer = store.load(like).tokenizer
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 64}
    config = tiny_config(**{**sizes, **changes})
    is_left_to_right = config.direction == "left_to_right"
    model = PretrainModel(config, ("left_to_right_lm",) if is_left_to_right else ())
    initialise(model, std=0.02, seed=1)
    return saved(directory, model, tokenizer)


@pytest.mark.parametrize(
    ("changes", "options", "told"),
    [
        ({"direction": "left_to_right"}, (), "choose --objectives left_to_right_lm"),
        ({"direction": "two_way"}, (), "is two models joined"),
        (
            {"direction": "left_to_right", "layer_kind": "lstm"},
            ("--objectives", "left_to_right_lm"),
            "is a language model of LSTM layers",
        ),
        ({}, ("--phases", "9x128x8"), "has 64 positions, and a phase has sequences of 128 tokens"),
        ({"type_vocab_size": 1}, (), "choose the form 'one_segment'"),
    ],
)
def test_a_model_that_cannot_be_gone_on_with_is_refused_before_any_text_is_read(
    text: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    options: tuple[str, ...],
    told: str,
) -> None:
    place = untrained(tmp_path / "model", model, **changes)
    asked = ("pretrain", text, "--from", place, *FURTHER, *options, "--out", tmp_path / "run")
    assert bertsmith(*asked) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_left_to_right_model_goes_on_with_its_own_objective(
    text: Path, model: Path, tmp_path: Path
) -> None:
    place = untrained(tmp_path / "model", model, direction="left_to_right")
    asked = ("pretrain", text, "--from", place, *FURTHER, "--out", tmp_path / "run")
    assert bertsmith(*asked, "--objectives", "left_to_right_lm") == 0
    found = store.load(tmp_path / "run")
    assert found.config.direction == "left_to_right"
    assert found.model.objectives == ("left_to_right_lm",)


def test_weights_in_eight_bits_are_refused(
    text: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model / "checkpoints" / "step-00000024", tmp_path / "int8")
    file = tmp_path / "int8" / "model.safetensors"
    tensors = load_file(file)
    name = "bert.encoder.layer.0.output.dense.weight"
    tensors[name] = (tensors[name] * 100).to(torch.int8)
    save_file(tensors, file, metadata={"format": "pt"})
    asked = ("pretrain", text, "--from", tmp_path / "int8", *FURTHER, "--out", tmp_path / "run")
    assert bertsmith(*asked) == 2
    assert "has torch.int8, expected floating-point numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--size", "tiny"), "brings its sizes and its vocabulary, and --size would contradict"),
        (("--model.num-hidden-layers", "3"), "and --model.num-hidden-layers would contradict"),
        (("--vocab-size", "300"), "and --vocab-size would contradict"),
        (("--cased",), "and --cased would contradict"),
        (("--recipe", "mini-cpu"), "the recipe 'mini-cpu' is for a model that begins with drawn"),
        (("--count-embeddings",), "--count-embeddings would put others in place"),
        (("--tile-positions",), "--tile-positions would put others in place"),
        (("--add-words", "nowhere"), "No such file"),
    ],
)
def test_what_contradicts_a_model_is_refused_in_one_line(
    text: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    told: str,
) -> None:
    run = tmp_path / "run"
    assert bertsmith("pretrain", text, "--from", model, *FURTHER, *options, "--out", run) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not run.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--add-words", "words"), "name the model with --from"),
        (("--recipe", "further"), "goes on from a model: name one with --from"),
        (("--from", "mini-em"), "did you mean 'mini-en'?"),
    ],
)
def test_what_needs_a_model_says_so(
    text: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert bertsmith("pretrain", text, *options) == 2
    assert told in capsys.readouterr().err


def test_a_fine_tuned_model_is_gone_on_from_without_its_head(
    text: Path, further: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = tmp_path / "examples.csv"
    lines = [f"the {who} sees the river .,{label}" for who, label in (("cat", "a"), ("dog", "b"))]
    examples.write_text("\n".join(["text,label", *lines * 12]))
    tuned = tmp_path / "tuned"
    asked = ("finetune", further, "--texts", examples, "--out", tuned, "--epochs", "1")
    assert bertsmith(*asked, "--threads", "1") == 0
    capsys.readouterr()
    asked = ("pretrain", text, "--from", tuned, *FURTHER, "--plan-only", "--out", tmp_path / "run")
    assert bertsmith(*asked) == 0
    shown = capsys.readouterr().out
    assert "the head that fine-tuning gave the model is left aside" in shown
    assert "a new language-model head, drawn by seed 0" in shown
    # What it came out of is told, run by run.
    for run in ("tuned: ", "further: step 6 of 6 of ", "model: step 24 of 24 of "):
        assert run in shown


def test_a_request_holds_what_the_words_are_not_where_they_lie(with_words: Path) -> None:
    asked = read_json(with_words / "run.json")["request"]["from"]
    assert asked["model"] == read_record(with_words).model
    assert len(asked["words"]) == 64
