"""What a check found, as a row of the certificate; and which differences are known, and to whom.

A difference is named where a check can meet it. The profiles say for whom it is no fault: what
google-research/bert or `transformers` do otherwise than the paper and the original's first code.
This file knows no check, and no numbers: a command line that names a profile is read without NumPy.

Source: the paper and google-research/bert as the profiles' definitions; the differences are those
that `transformers` 5 and `tokenizers` 0.23 show beside them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

Profile = Literal["paper", "google", "huggingface"]
Status = Literal["passed", "failed", "known difference", "skipped"]

PROFILES: tuple[Profile, ...] = get_args(Profile)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check's outcome."""

    name: str
    """What was checked."""
    status: Status
    found: str
    """What was measured; for a skipped check the reason."""
    expected: str
    """What it was held against, with the tolerance."""
    reference: str
    """The paper's section, or the original's file and function."""
    difference: str = ""
    """The name of the known difference that a failure would be; empty for none."""
    section: str = ""
    """What it is about: the installation, the model, or the model beside a peer."""


@dataclass(frozen=True, kw_only=True)
class KnownDifference:
    """A place where followers of BERT part from it."""

    meaning: str
    """Who does what, in a few words."""
    profiles: tuple[Profile, ...]
    """Under which profiles it fails no certificate."""


KNOWN: Mapping[str, KnownDifference] = {
    "gelu_tanh": KnownDifference(
        meaning="google-research/bert computes GELU's tanh form since February 2019",
        profiles=("google",),
    ),
    "layer_norm_eps": KnownDifference(
        meaning="`transformers` takes LayerNorm's epsilon from config.json",
        profiles=("huggingface",),
    ),
    "pad_row": KnownDifference(
        meaning="`transformers` sets the [PAD] row to zero and never trains it",
        profiles=("huggingface",),
    ),
    "first_weights": KnownDifference(
        meaning="`transformers` draws first weights from a normal that is not cut",
        profiles=("huggingface",),
    ),
    "untied_decoder": KnownDifference(
        meaning="`transformers` allows a decoder of its own (tie_word_embeddings: false)",
        profiles=("huggingface",),
    ),
    "spare_rows": KnownDifference(
        meaning="the token embedding is padded to a multiple of 8 rows",
        profiles=("huggingface",),
    ),
    "entries_twice": KnownDifference(
        meaning="the last of equal entries counts, as in the original's dictionary",
        profiles=("huggingface",),
    ),
    "library_tokenizer": KnownDifference(
        meaning="the `tokenizers` library has another rule",
        profiles=("huggingface",),
    ),
    "peer": KnownDifference(
        meaning="`transformers` departs from the original, this installation does not",
        profiles=PROFILES,
    ),
    "own_choice": KnownDifference(
        meaning="a choice that the original does not offer",
        profiles=PROFILES,
    ),
}


def under(row: Row, profile: Profile) -> Row:
    """The row, its failure called a known difference where the profile knows it."""
    if row.status != "failed" or not row.difference:
        return row
    known = KNOWN[row.difference]
    if profile not in known.profiles:
        return row
    return replace(row, status="known difference", found=f"{row.found}; {known.meaning}")


def profiles_without_failure(failed: Sequence[Row]) -> list[Profile]:
    """The profiles that know every one of these failures."""
    return [
        profile
        for profile in PROFILES
        if all(row.difference and profile in KNOWN[row.difference].profiles for row in failed)
    ]


def outcome(is_right: bool) -> Status:
    """The status of a check that does nothing but ask."""
    return "passed" if is_right else "failed"


def skipped(name: str, reason: str, reference: str) -> Row:
    """The row of a check that could not be made."""
    return Row(name=name, status="skipped", found=reason, expected="", reference=reference)


def agreeing(
    name: str,
    found: Mapping[str, object],
    expected: Mapping[str, object],
    *,
    reference: str,
    against: str = "the golden values",
    difference: str = "",
) -> Row:
    """The row of a comparison case by case: all must be equal; the first that is not is shown."""
    apart = [case for case, value in expected.items() if found.get(case) != value]
    text = f"{len(expected) - len(apart)} of {len(expected)} equal"
    if apart:
        case = apart[0]
        text += f"; {case}: {_short(found.get(case))} instead of {_short(expected[case])}"
    return Row(
        name=name,
        status=outcome(not apart),
        found=text,
        expected=against,
        reference=reference,
        difference=difference,
    )


def _short(value: object) -> str:
    """A value in one line: tokens with blanks between them, long ones cut."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    printable = "".join(c if c.isprintable() else f"<{ord(c):X}>" for c in text)
    return textwrap.shorten(printable, 60, placeholder="…") or "nothing"
