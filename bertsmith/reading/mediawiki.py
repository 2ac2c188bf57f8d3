"""A MediaWiki XML dump -> its articles' wikitext, streaming; and wikitext -> text passages.

Only articles are read: other namespaces and redirects are counted. Of an article only its running
text is kept: no headings, lists, tables, templates, references, formulas, files or categories.
Links become their labels. A handful of templates that stand inside sentences give their text; all
others go, so a sentence built by templates loses words.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

from bertsmith.reading.compressed import Member, naming_damage
from bertsmith.reading.markup import (
    innermost_first,
    resolve_links,
    tidy,
    without_comments,
    without_tags,
)
from bertsmith.reading.passages import (
    FRAGMENTS,
    HEADINGS,
    SEPARATORS,
    ends_like_a_sentence,
    has_letters,
    is_fragment,
)

OTHER_NAMESPACES = "pages that are not articles"
REDIRECTS = "redirects"
NOT_WIKITEXT = "pages that are not wikitext"
LISTS = "list items"
TABLES = "tables"
PREFORMATTED = "preformatted and template lines"

# Elements whose content is not running text. A formula leaves one word: sentences go on round it.
_FORMULA = re.compile(r"<(math|chem)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_EMPTY_ELEMENT = re.compile(r"<(?:ref|references|nowiki|section)\b[^<>]*/>", re.IGNORECASE)
_ELEMENT = re.compile(
    r"<(ref|gallery|timeline|imagemap|table|source|syntaxhighlight|pre|score|hiero|math|poem|div"
    r"|graph|mapframe|references|includeonly|ul|ol|dl)\b[^<>]*>(?:(?!<\1\b).)*?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")
# The group is not possessive: Python before 3.11.5 then finds no match at all.
_TEMPLATE = re.compile(r"\{\{((?:[^{}]++|\{(?!\{)|\}(?!\}))*)\}\}")
_TABLE = re.compile(r"^[ :]*\{\|(?:(?!^[ :]*\{\|).)*?^\s*\|\}", re.DOTALL | re.MULTILINE)
_BEHAVIOUR = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile("''+")
_BROKEN = ("{{", "}}", "{|", "|}", "[[", "]]")

_KEEPS_LAST = frozenset(
    ["lang", "transl", "transliteration", "nowrap", "nobr", "small", "big", "smallcaps", "angbr"]
)
_CONVERTS = frozenset(["convert", "cvt", "converti"])
_SYMBOLS = {
    "ndash": "–", "spaced ndash": " – ", "snd": " – ", "mdash": "—", "nbsp": " ", "'": "'",
    "!": "|", "=": "=", "·": "·", "pi": "π", "frac12": "½",
}  # fmt: skip


def pages(member: Member, skipped: Counter[str]) -> Iterator[str]:
    """Yields the wikitext of each article; memory is bounded by the longest page."""
    with naming_damage(member.name):
        try:
            yield from _articles(member, skipped)
        except ElementTree.ParseError as error:
            line, column = error.position
            raise ValueError(
                f"{member.name}:{line}: not well-formed XML at column {column} ({error}); is the "
                f"dump whole?"
            ) from error


def _articles(member: Member, skipped: Counter[str]) -> Iterator[str]:
    events = ElementTree.iterparse(member.stream, events=("start", "end"))
    _, root = next(events)
    for event, element in events:
        if event != "end" or _local(element) != "page":
            continue
        fields = {_local(child): child.text or "" for child in element.iter()}
        names = {_local(child) for child in element}
        if fields.get("ns", "0") != "0":
            skipped[OTHER_NAMESPACES] += 1
        elif "redirect" in names:
            skipped[REDIRECTS] += 1
        elif fields.get("model", "wikitext") != "wikitext":
            skipped[NOT_WIKITEXT] += 1
        else:
            yield fields.get("text", "")
        # Without this the tree of all pages read so far would stay in memory.
        root.clear()


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def passages(wikitext: str, skipped: Counter[str]) -> list[str]:
    """The article's paragraphs in order, cleaned; counts what it drops by reason."""
    text = _without_blocks(wikitext, skipped)
    kept: list[str] = []
    goes_on = False
    for line in text.split("\n"):
        reason = _kind_to_drop(line)
        if reason is None and line.strip():
            cleaned = tidy(_QUOTES.sub("", line)).strip()
            if goes_on:
                kept[-1] += f" {cleaned}"
            elif cleaned:
                kept.append(cleaned)
            goes_on = bool(kept) and bool(cleaned) and not ends_like_a_sentence(kept[-1])
            continue
        goes_on = False
        if reason is not None:
            skipped[reason] += 1
    return [paragraph for paragraph in kept if not _is_dropped(paragraph, skipped)]


def _without_blocks(text: str, skipped: Counter[str]) -> str:
    """Removes everything that may span lines, from the inside out, and resolves the links."""
    text = without_comments(text)
    text = _EMPTY_ELEMENT.sub("", text)
    text = _FORMULA.sub("formula", text)
    text = innermost_first(_ELEMENT, "", text)
    text = innermost_first(_PARAMETER, "", text)
    text = _expanded(text)
    while _TABLE.search(text):
        text, count = _TABLE.subn("", text)
        skipped[TABLES] += count
    text = resolve_links(text)
    text = _BEHAVIOUR.sub("", without_tags(text))
    return html.unescape(text)


def _expanded(text: str) -> str:
    while True:
        text, count = _TEMPLATE.subn(_text_of_template, text)
        if not count:
            return text


def _text_of_template(match: re.Match[str]) -> str:
    name, *arguments = match[1].split("|")
    name = name.strip().lower()
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    plain = [argument.strip() for argument in arguments if "=" not in argument]
    if name in _KEEPS_LAST or name.startswith("lang-"):
        return plain[-1] if plain else ""
    if name in _CONVERTS and len(plain) > 1:
        return " ".join(plain[:2])
    return ""


def _kind_to_drop(line: str) -> str | None:
    stripped = line.lstrip()
    if stripped.startswith("="):
        return HEADINGS
    if stripped.startswith(("*", "#", ":", ";")):
        return LISTS
    if stripped.startswith(("|", "!")):
        return TABLES
    if stripped and (line[0] == " " or any(mark in line for mark in _BROKEN)):
        return PREFORMATTED
    return None


def _is_dropped(paragraph: str, skipped: Counter[str]) -> bool:
    if not has_letters(paragraph):
        skipped[SEPARATORS] += 1
        return True
    if is_fragment(paragraph):
        skipped[FRAGMENTS] += 1
        return True
    return False
