"""The card that a model had -> what a new card takes over of it, or the same card with other facts.

It does not know which of both is right: whoever converts the model does.

Source: the Hub's model card metadata (YAML between dashes, then Markdown).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

_FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_HEADING = re.compile(r"#{1,6}(?=\s)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_LOWERED = 2
"""By how many levels its headings go down: they stand below a section of the new card."""


@dataclass(frozen=True, kw_only=True)
class OriginalCard:
    """A card in its two parts."""

    metadata: dict[str, object]
    """The front matter; empty where there is none."""
    body: str
    """The Markdown below it."""

    @classmethod
    def read(cls, file: Path) -> OriginalCard | None:
        """None where there is no such file.

        Raises ValueError, naming the file, for other bytes than UTF-8 and a front matter that is
        none.
        """
        if not file.is_file():
            return None
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file} is no UTF-8 (byte {error.start:,} is 0x{error.object[error.start]:02x}); "
                f"save it as UTF-8, or take the file away"
            ) from error
        found = _FRONT_MATTER.match(text)
        try:
            metadata = yaml.safe_load(found[1] or "") if found else None
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{file}: what stands between its dashes is no YAML ({reason}); correct it, or "
                f"take the file away"
            ) from error
        if not isinstance(metadata, dict | None):  # a text between two rules is no front matter
            found, metadata = None, None
        return cls(metadata=metadata or {}, body=text[found.end() :] if found else text)

    @property
    def language(self) -> str | list[str] | None:
        """The ISO code of the texts' language, or several."""
        said = self.metadata.get("language")
        return [str(each) for each in said] if isinstance(said, list) else _text(said)

    @property
    def license(self) -> str | None:
        """The Hub's name of the weights' licence."""
        said = self.metadata.get("license")
        return _text(said[0] if isinstance(said, list) and len(said) == 1 else said)

    @property
    def license_name(self) -> str | None:
        """What the licence is called where the Hub has no name for it."""
        return _text(self.metadata.get("license_name"))

    @property
    def license_link(self) -> str | None:
        """Where such a licence is read."""
        return _text(self.metadata.get("license_link"))

    def with_facts(self, language: str | None, license: str | None) -> str:
        """The whole card again, with another language or licence in its front matter."""
        metadata = dict(self.metadata)
        if language:
            metadata["language"] = language
        if license:
            metadata["license"] = license
            for key in ("license_name", "license_link"):  # they belong to the licence of before
                metadata.pop(key, None)
        return (
            f"---\n{yaml.safe_dump(metadata, allow_unicode=True, sort_keys=False)}---\n{self.body}"
        )

    def section(self) -> str:
        """The body as a part of another card: its headings go down two levels, at most to six."""
        lines, is_code = [], False
        for line in self.body.strip().splitlines():
            is_code ^= _FENCE.match(line) is not None
            found = None if is_code else _HEADING.match(line)
            lines.append("#" * min(_LOWERED, 6 - len(found[0])) + line if found else line)
        return "\n".join(lines)


def _text(said: object) -> str | None:
    # YAML takes a bare `no`, Norwegian, for false; the Hub's cards mean the language.
    if said is False:
        return "no"
    return said if isinstance(said, str) and said else None
