import fnmatch
import json
from pathlib import Path

import pytest

from bertsmith.checkpoints import places, project_models


def make_checkpoint(directory: Path, weights: str = "model.safetensors") -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / weights).write_bytes(b"")
    return directory


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory, a Hub that cannot be reached."""

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("offline mode is enabled")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "snapshot_download", unreachable)
    return tmp_path


def test_a_name_under_models_comes_before_a_path(here):
    make_checkpoint(here / "mini-test")
    named = make_checkpoint(here / "models" / "mini-test")
    assert places.find_model("mini-test") == named
    assert places.find_model("./mini-test") == Path("mini-test")
    assert places.find_model(Path("models/mini-test")) == Path("models/mini-test")
    assert places.find_model(Path("mini-test")) == Path("mini-test")  # as whoever made it says
    assert places.project_model("mini-test") == named
    assert places.project_model("models/mini-test") is places.project_model("mini") is None


def test_a_run_stands_for_its_newest_complete_checkpoint(here):
    for step in (9, 10, 200):
        make_checkpoint(here / "run" / "checkpoints" / f"step-{step:07d}")
    (here / "run/checkpoints/step-0000200/model.safetensors").unlink()
    make_checkpoint(here / "run" / "checkpoints" / ".step-0000300.abc.part")
    assert places.newest_checkpoint(here / "run") == here / "run/checkpoints/step-0000010"
    assert places.find_model("run") == Path("run/checkpoints/step-0000010")


def test_of_a_run_that_has_not_ended_it_is_told_which_checkpoint_answers(here):
    newest = make_checkpoint(here / "run" / "checkpoints" / "step-00001034")
    place = places.find_model("run")
    assert places.unfinished_note("run", place) is None  # whatever it is, it is no run of ours
    (here / "run" / "run.json").write_text("{}")
    told = "run has not ended: its newest checkpoint answers, after step 1,034"
    assert places.unfinished_note("run", place) == told
    assert places.unfinished_note(newest, newest) is None  # asked for by its own name
    best = make_checkpoint(here / "run" / "best")
    so_far = places.unfinished_note("run", places.find_model("run"))
    assert so_far == "run has not ended: its best model so far answers"
    (here / "run" / "README.md").write_text("")
    assert places.unfinished_note("run", place) is None
    assert places.unfinished_note("run", Path("run/best")) is places.unfinished_note(best, best)


def test_a_run_that_chose_among_its_models_stands_for_the_chosen_one(here):
    make_checkpoint(here / "run" / "checkpoints" / "step-00000010")
    best = make_checkpoint(here / "run" / "best")
    assert places.find_model("run") == Path("run/best")
    assert places.newest_checkpoint(here / "run") == here / "run/checkpoints/step-00000010"
    (best / "model.safetensors").unlink()
    assert places.find_model("run") == Path("run/checkpoints/step-00000010")


def test_a_run_without_a_checkpoint_says_what_it_holds(here):
    (here / "run").mkdir()
    (here / "run" / "metrics.jsonl").write_text("")
    assert places.newest_checkpoint(here / "run") is None
    with pytest.raises(FileNotFoundError, match=r"it holds metrics\.jsonl"):
        places.find_model("run")


def search_of(directory: Path, *failures: str) -> Path:
    """A search of two rates and two seeds, as many of whose runs have ended as are given."""
    directory.mkdir()
    grid = {"batch_sizes": [4], "learning_rates": [1e-3, 1e-4], "epochs": [1.0]}
    (directory / "search.json").write_text(json.dumps({"grid": grid, "restarts": 2}))
    rows = [{"name": f"run{number}", "failure": each} for number, each in enumerate(failures)]
    (directory / "results.json").write_text(json.dumps({"runs": rows, "ensembles": {}}))
    return directory


def test_a_search_whose_runs_all_failed_names_one_that_holds_a_model(here):
    search_of(here / "search", *["failed"] * 4)
    told = "search is a search in which 4 of 4 runs failed; none was chosen"
    with pytest.raises(FileNotFoundError, match=f"{told}, and none of its runs holds a model$"):
        places.find_model("search")
    make_checkpoint(here / "search" / "run1" / "checkpoints" / "step-0000009")
    make_checkpoint(here / "search" / "run2" / "best")
    with pytest.raises(
        FileNotFoundError, match=f"{told}: name one of its runs, such as search/run1$"
    ):
        places.find_model("search")


def test_a_search_that_has_not_ended_says_how_it_goes_on(here):
    make_checkpoint(search_of(here / "search", "failed", "") / "run1" / "best")
    with pytest.raises(
        FileNotFoundError,
        match=r"2 of 4 runs have ended; none is chosen yet: `bertsmith search --resume search` "
        r"goes on, or name one of its runs, such as search/run1$",
    ):
        places.find_model("search")


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_old_weights_are_found_too(here, weights):
    assert places.find_model(make_checkpoint(here / "old", weights)) == here / "old"


def test_a_tensorflow_checkpoint_is_found_by_its_directory_or_prefix(here):
    (here / "google").mkdir()
    for name in ("bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-1"):
        (here / "google" / name).write_bytes(b"")
    assert places.find_model("./google") == Path("google")
    for spelled in ("google/bert_model.ckpt", "google/bert_model.ckpt.index"):
        assert places.find_model(spelled) == Path("google/bert_model.ckpt")


def test_a_file_of_another_format_is_named(here):
    (here / "old").mkdir()
    (here / "old" / "tf_model.h5").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"tf_model\.h5 is of no format that is read"):
        places.find_model("old")


def test_an_unknown_name_suggests_the_nearest(here):
    make_checkpoint(here / "models" / "mini-test")
    with pytest.raises(FileNotFoundError, match="did you mean 'mini-test'") as caught:
        places.find_model("mytest")
    assert "offline mode is enabled" in str(caught.value)


def test_a_slip_in_a_name_is_told_without_asking_the_hub(here, monkeypatch):
    make_checkpoint(here / "models" / "mini-test")
    monkeypatch.setattr(places, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(FileNotFoundError, match=r"did you mean 'mini-test'\?.*OWNER/mini-tset"):
        places.find_model("mini-tset")


@pytest.mark.parametrize("hub_id", ["owner/mini-tset", "bert-base-uncased", "mini"])
def test_an_id_of_the_hub_is_no_slip(here, hub_id):
    make_checkpoint(here / "models" / "mini-test")
    with pytest.raises(FileNotFoundError, match="the Hugging Face Hub gave none"):
        places.find_model(hub_id)


def test_a_directory_is_no_slip(here):
    make_checkpoint(here / "models" / "mini-test")
    assert places.find_model(make_checkpoint(here / "mini-tset").name) == Path("mini-tset")


def test_a_checkouts_models_are_found_from_any_directory(here, monkeypatch):
    checkout = here / "checkout"
    named = make_checkpoint(checkout / "models" / "mini-test")
    file = checkout / "bertsmith/checkpoints/project_models.py"
    monkeypatch.setattr(project_models, "__file__", str(file))
    with pytest.raises(FileNotFoundError, match="no model 'mini-test'"):  # as in a wheel
        places.find_model("mini-test")
    (checkout / "pyproject.toml").touch()
    assert places.find_model("mini-test") == named


@pytest.mark.parametrize("name", ["mini-en", "mini-ko"])
def test_a_model_of_a_clone_is_not_asked_of_the_hub_where_there_is_no_clone(
    here, monkeypatch, name
):
    monkeypatch.setattr(project_models, "__file__", str(here / "wheel/bertsmith/checkpoints/x.py"))
    with monkeypatch.context() as patches:
        patches.setattr(places, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
        with pytest.raises(FileNotFoundError, match="comes with a clone of the project only") as no:
            places.find_model(name)
        assert f"there is no {here / 'models' / name};" in str(no.value)
    with pytest.raises(FileNotFoundError, match="the Hugging Face Hub gave none"):
        places.find_model(f"owner/{name}")
    named = make_checkpoint(here / name)
    assert places.find_model(name) == Path(name)
    in_the_clone = make_checkpoint(here / "models" / name)
    assert places.find_model(name) == in_the_clone != named


def test_a_missing_model_lists_what_was_tried(here):
    with pytest.raises(FileNotFoundError) as caught:
        places.find_model("mini-test")
    project = Path(places.__file__).parents[2]
    for tried in (project / "models" / "mini-test", here / "models" / "mini-test"):
        assert f"no {tried} " in str(caught.value)
    assert f"no {here / 'mini-test'}, and the Hugging Face Hub gave none" in str(caught.value)


@pytest.mark.parametrize("text", ["no/such/directory", "./nothing", "/no/where", "a b"])
def test_what_cannot_be_a_hub_id_is_never_asked_of_the_hub(here, text):
    with pytest.raises(FileNotFoundError, match="no model at"):
        places.find_model(text)


def test_a_file_is_not_a_model(here):
    (here / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="is a file"):
        places.find_model("model.safetensors")


def test_the_hub_is_asked_last_and_for_no_pickle_where_there_are_safetensors(here, monkeypatch):
    asked = {}

    def download(hub_id: str, allow_patterns: list[str]) -> str:
        asked[hub_id] = allow_patterns
        return str(make_checkpoint(here / "cache"))

    monkeypatch.setattr(places, "snapshot_download", download)
    assert places.find_model("someone/some-bert") == here / "cache"
    needed = {"model.safetensors", "added_tokens.json", "README.md"}  # the last: for the licence
    assert needed <= set(asked["someone/some-bert"])
    assert not any(pattern.endswith((".bin", "*")) for pattern in asked["someone/some-bert"])


MODULES = '[{"path": "0_BERT", "type": "sentence_transformers.models.BERT"}]'
DENSE = '[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]'


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": "{}", "pytorch_model.bin": ""},
        {"bert_config.json": "{}", "bert_model.ckpt.index": "", "bert_model.ckpt.data-0-of-1": ""},
        {"modules.json": MODULES, "0_BERT/config.json": "{}", "0_BERT/pytorch_model.bin": ""},
        {
            "modules.json": DENSE, "config.json": "{}", "model.safetensors": "",
            "2_Dense/config.json": "{}", "2_Dense/pytorch_model.bin": "",
        },
    ],
)  # fmt: skip
def test_old_files_are_asked_of_the_hub_where_it_has_nothing_else(here, monkeypatch, files):
    def download(hub_id: str, allow_patterns: list[str]) -> str:
        for name, content in files.items():
            if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (here / "cache" / name).parent.mkdir(parents=True, exist_ok=True)
                (here / "cache" / name).write_text(content)
        return str(here / "cache")

    monkeypatch.setattr(places, "snapshot_download", download)
    assert places.find_model("someone/some-bert") == here / "cache"
    assert {str(file.relative_to(here / "cache")) for file in (here / "cache").rglob("*.*")} == {
        *files
    }


def test_a_hub_model_without_weights_is_refused(here, monkeypatch):
    (here / "cache").mkdir()
    monkeypatch.setattr(places, "snapshot_download", lambda *_, **__: str(here / "cache"))
    with pytest.raises(FileNotFoundError, match=r"has no config\.json with model\.safetensors"):
        places.find_model("someone/some-bert")
