"""Text of any script finds the fonts that have it, and is told what none has."""

from __future__ import annotations

from matplotlib import font_manager

from bertsmith.runs import fonts
from bertsmith.runs.fonts import families_for


def test_a_font_that_has_the_characters_is_found_wherever_it_is(monkeypatch) -> None:
    families, missing = families_for("my dog")
    assert (families, missing) == (["DejaVu Sans"], "")
    characters = {"DejaVu Sans": set("abc"), "Last Resort X": set("abc한語"), "Other": set("한")}
    listed = [font_manager.FontEntry(fname=name, name=name, style="normal") for name in characters]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
    monkeypatch.setattr(fonts, "_characters_of", characters.__getitem__)
    assert families_for("ab 한") == (["DejaVu Sans", "Other"], "")
    assert families_for("ab 語") == (["DejaVu Sans"], "語")
