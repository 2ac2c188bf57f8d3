"""Text with markup left in it -> text: tags, templates, links, entities, emptied brackets.

Each rule runs only where its character occurs, because nearly all text has none of them. It works
on one line and knows no document structure.
"""

from __future__ import annotations

import html
import re

# Where none of these occurs there is nothing to clean. Plain searches: ten times as fast as one
# regular expression of the same.
_MARKS = (
    "<", "{{", "}}", "[", "&", "''", "formula_", "codice_", "()", "( ", "(,", "(;", "（）", "（ ",
    "（,", " ,", " )", "  ", "\xa0",
)  # fmt: skip
_BREAKING_TAG = re.compile(
    r"(?<=\S)</?(?:br|p|div|center|blockquote|poem|li|dl|dd|dt|tr|td|th|hr)\b[^<>]*>", re.IGNORECASE
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_UNCLOSED = re.compile(r"\{\{.*|^.*?\}\}")
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:)?//[^\s\[\]]++(?:\s++([^\[\]]*))?\]")
_QUOTES = re.compile("''+")
_PLACEHOLDER = re.compile(r"\b(formula|codice)_\d+")
_PLAIN_WORD = {"formula": "formula", "codice": "code"}
_OPENING = re.compile(r"([(（])[\s,;:]+")
_EMPTY = re.compile(r"\s*(?:\(\s*\)|（\s*）|\[\s*\])")
_BEFORE_STOP = re.compile(r" (?=\)|[,.;:](?:\s|$))")
# Files, images and categories, in the languages with the largest Wikipedias; not text.
_NOT_TEXT = re.compile(
    r"""(?:file|image|media|category|파일|그림|분류|미디어|datei|bild|kategorie|fichier|catégorie
    |archivo|categoría|imagen|immagine|categoria|ficheiro|imagem|bestand|categorie|afbeelding|plik|grafika
    |kategoria|файл|изображение|категория|ファイル|画像|カテゴリ|文件|分类|分類)\s*:""",
    re.VERBOSE | re.IGNORECASE,
)
_OTHER_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?:[^|]*$")


def marks_in(document: str) -> list[str]:
    """The marks of markup that occur in a document, for `clean_leftovers` of its lines."""
    return [mark for mark in _MARKS if mark in document]


def clean_leftovers(line: str, marks: list[str]) -> str:
    """Removes what an extractor left behind; the same string where it holds none of the marks."""
    for mark in marks:
        if mark in line:
            return _cleaned(line)
    return line


def resolve_links(text: str) -> str:
    """`[[target|label]]` becomes its label, `[http://... label]` too; files and categories go."""
    while True:
        replaced = _LINK.sub(_label, text)
        if replaced == text:
            break
        text = replaced
    return _EXTERNAL.sub(lambda match: match[1] or "", text) if "//" in text else text


def without_tags(text: str) -> str:
    """Removes tags and keeps what they enclose; those that begin a new line leave a blank."""
    return _TAG.sub("", _BREAKING_TAG.sub(" ", without_comments(text)))


def without_comments(text: str) -> str:
    """Removes `<!-- ... -->`; by splitting, since an expression is quadratic in unclosed ones."""
    first, *rest = text.split("<!--")
    return first + "".join(part.partition("-->")[2] if "-->" in part else part for part in rest)


def innermost_first(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Substitutes until nothing matches, so that nested pairs close from the inside out."""
    while True:
        text, count = pattern.subn(replacement, text)
        if not count:
            return text


def tidy(text: str) -> str:
    """One blank between words, no emptied brackets, no blank before a stop."""
    if "(" in text or "（" in text or "[" in text:
        text = _OPENING.sub(r"\1", text)
        text = _EMPTY.sub("", text)
    return _BEFORE_STOP.sub("", " ".join(text.split()))


def _cleaned(line: str) -> str:
    if "<" in line:
        line = without_tags(line)
    if "{{" in line or "}}" in line:
        line = _UNCLOSED.sub("", innermost_first(_TEMPLATE, "", line))
    if "[" in line:
        line = resolve_links(line)
    if "&" in line:
        line = html.unescape(line)
    if "_" in line:
        line = _PLACEHOLDER.sub(lambda match: _PLAIN_WORD[match[1]], line)
    return tidy(_QUOTES.sub("", line) if "''" in line else line)


def _label(match: re.Match[str]) -> str:
    inside = match[1].strip()
    target, bar, label = inside.partition("|")
    if _NOT_TEXT.match(target) or (not bar and _OTHER_LANGUAGE.match(target)):
        return ""
    # "[[:Category:X]]" is a visible link to the page; a bare one shows its own name.
    return label.rpartition("|")[2] if bar else target.lstrip(":")
