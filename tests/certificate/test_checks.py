"""The certificate as a whole: sections, profiles, and checks that cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertsmith.certificate import encoder, weights
from bertsmith.certificate.checks import INSTALLATION, MODEL, PEER, certify
from tests.certificate.breaking import saved


def test_a_sound_model_has_three_sections_and_no_failure(folder: Path) -> None:
    rows = list(certify(folder, "paper"))
    assert [row for row in rows if row.status == "failed"] == []
    assert list(dict.fromkeys(row.section for row in rows)) == [INSTALLATION, MODEL, PEER]
    assert all(row.reference and row.name and row.found for row in rows)
    names = [(row.section, row.name) for row in rows]
    assert len(set(names)) == len(names) > 60


def test_the_profile_decides_what_is_a_failure(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", hidden_act="gelu_tanh")
    for profile, expected in (("paper", "failed"), ("google", "known difference")):
        found = {row.name: row.status for row in certify(folder, profile)}
        assert found["activation"] == expected


def test_a_check_that_raises_is_a_failed_row_and_the_others_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(subject):
        raise RuntimeError("it is\nbroken")

    monkeypatch.setattr(weights, "CHECKS", (broken,))
    rows = list(certify(folder, "paper"))
    (failed,) = [row for row in rows if row.status == "failed"]
    assert failed.found == "RuntimeError: it is broken"
    assert failed.section == MODEL
    assert rows[-1].section == PEER


def test_what_is_no_model_is_refused_before_any_check(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(certify(tmp_path / "nothing", "paper"))


def test_gradients_are_off_inside_a_check_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = []

    def asked():
        inside.append(torch.is_grad_enabled())
        return encoder.activation_exact()

    monkeypatch.setattr(encoder, "CHECKS", (asked,))
    next(certify(folder, "paper"))
    assert inside == [False]
    assert torch.is_grad_enabled()
