"""One paragraph of prose -> its sentences, for English and Korean (and 。 wherever it stands).

One regular expression finds the stops that could end a sentence; a few rules turn down those that
do not: abbreviations, initials, list numbers, dates, quotations that go on. Every character but the
blanks between sentences is kept. It does not know markup, line layout or documents.

Source: our own rules; the original BERT code expects sentences already split.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, get_args

Language = Literal["auto", "en", "ko"]
_EndRule = Callable[[str, int, re.Match[str]], bool]

_OPENERS = r"""["'“‘«(\[{「『《〈（【—–-]"""
_CLOSERS = r"""["'”’»)\]}」』》〉）】]"""
# What continues a sentence: a lower-case letter (Latin, Greek, Cyrillic) or more punctuation.
_LOWER = "a-zß-öø-ÿα-ωа-я"
_GOES_ON = rf"(?!{_OPENERS}*+[{_LOWER}]|[.,;:!?…])"
# A run of stops is tried from its first one only: from each, a page of dots would take minutes.
_STOPS = r"[.!?…](?<![.!?…].)[.!?…]*+"
_WIDE_STOPS = r"[.!?…。！？](?<![.!?…。！？].)[.!?…。！？]*+"
_STOP = re.compile(rf"({_STOPS}{_CLOSERS}*+)\s++{_GOES_ON}")
_STOP_ANY_CASE = re.compile(rf"({_STOPS}{_CLOSERS}*+)\s++(?![.,;:!?…])")
# Korean, Chinese and Japanese stops need no blank after them; `_breaks_without_blank` decides.
_WIDE_STOP = re.compile(rf"({_WIDE_STOPS}{_CLOSERS}*+)\s*+{_GOES_ON}")
_WIDE = re.compile("[가-힣。！？]")
_KOREAN_ENDING = re.compile("[가-힣][다요죠까네오][.!?…]")
_QUOTATIVE = re.compile(r"(?:이?라[고는며면]?|하고|하며|하는|하면서|고|며|면서|는)(?![가-힣]{3})")

# A period after these never ends a sentence: a name, a case or an explanation follows.
_NEVER_LAST_WORDS = """
    mr mrs ms mx messrs mme mlle dr prof ste sts mt fr gen col maj capt cmdr comdr adm lt sgt cpl
    pvt rev revd hon sen rep gov pres supt insp det amb msgr rt vs cf viz e.g i.e eg ie ca approx
    esp incl mss
"""
# After these a sentence ends only where the next word commonly begins one.
_SELDOM_LAST_WORDS = """
    jr sr st ft esq inc ltd co corp bros dept univ assn al etc ave blvd rd sq jan feb mar apr jun
    jul aug sept sep oct nov dec mon tue tues wed thu thur thurs fri sat ph.d b.a m.a m.d a.m p.m
    a.d b.c tr trans repr orig lit var subsp spp
"""
# After these the sentence goes on only with a number: "No. 5", "p. 12".
_BEFORE_NUMBER_WORDS = """
    no nos nr p pp vol vols fig figs ch chap sec sect art op eq eqs pt ver bk para pl
"""
_NEVER_LAST = frozenset(_NEVER_LAST_WORDS.split())
_SELDOM_LAST = frozenset(_SELDOM_LAST_WORDS.split())
_BEFORE_NUMBER = frozenset(_BEFORE_NUMBER_WORDS.split())
_COMMON_START = re.compile(
    rf"""{_OPENERS}*+(?:The|A|An|In|On|At|By|For|From|With|As|It|Its|He|His|She|Her|They|Their|We
    |Our|You|Your|I|This|That|These|Those|There|Then|But|And|Or|So|Yet|If|When|While|Where|After
    |Before|During|Since|Although|Though|However|Because|Some|Many|Most|Several|Other|Another|Both
    |All|One|What|Who|Why|How|Not|No|Yes|To|Of|Also|Thus|Today|Until|Under|Despite|According)
    (?![\w.])""",
    re.VERBOSE,
)
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")


def split_sentences(text: str, language: Language = "auto") -> list[str]:
    """Splits one paragraph into sentences, stripped of blanks at both ends; `[]` if all is blank.

    Line breaks count as blanks. `auto` adds the Korean rules where Hangul (or a full-width stop)
    occurs. A paragraph without any capital letter is split at every stop that a blank follows.
    """
    if language not in get_args(Language):
        raise ValueError(f"language must be one of {get_args(Language)}, found {language!r}")
    text = text.strip()
    if language == "ko" or (
        language == "auto" and not text.isascii() and _WIDE.search(text) is not None
    ):
        return _split(text, _WIDE_STOP, _ends_wide_sentence)
    return _split(text, _STOP_ANY_CASE if text.islower() else _STOP, _ends_sentence)


def _split(text: str, stop: re.Pattern[str], ends: _EndRule) -> list[str]:
    sentences = []
    begin = 0
    for match in stop.finditer(text):
        if ends(text, begin, match):
            sentences.append(text[begin : match.end(1)])
            begin = match.end()
    if begin < len(text):
        sentences.append(text[begin:])
    return sentences


def _ends_sentence(text: str, begin: int, match: re.Match[str]) -> bool:
    """Whether an English sentence that starts at `begin` ends at this stop, a blank after it."""
    stop = match.start()
    if text[stop] != "." or text.startswith(".", stop + 1):
        return True
    word = text[text.rfind(" ", begin, stop) + 1 : stop]
    if len(word) > 6 and word.isalpha():
        return True
    # The slice reaches back over line breaks and starts too early in the sentence's first word. It
    # holds no word at all where two dozen tabs or other blanks stand before the stop.
    near = text[max(begin, stop - 24) : stop].split() if word.strip() else []
    word = near[-1] if near else ""
    return _word_may_end(word.lstrip("\"'“‘«([{*_—–-"), text, begin, match)


def _word_may_end(word: str, text: str, begin: int, match: re.Match[str]) -> bool:
    """The rules for a short word before a single period."""
    following = match.end()
    if word.isdecimal():
        return match.start() - len(word) > begin
    lower = word.lower()
    if lower in _NEVER_LAST:
        return False
    if lower in _BEFORE_NUMBER:
        return not text[following : following + 1].isdecimal()
    # "I" and Roman "V." alike: a lone letter or a chain of them is an initial or an acronym.
    if lower in _SELDOM_LAST or _INITIALS.fullmatch(word):
        return _COMMON_START.match(text, following) is not None
    return True


def _ends_wide_sentence(text: str, begin: int, match: re.Match[str]) -> bool:
    """The same for text with Hangul or full-width stops, where the blank may be missing."""
    stop, following = match.start(), match.end()
    if following == len(text):
        return True
    if match.end(1) == following:
        return _breaks_without_blank(text, match)
    quoted = match.end(1) - stop > 1 and text[match.end(1) - 1] in "\"'”’」』"
    if quoted and _QUOTATIVE.match(text, following):
        return False
    # Dates and numbered points ("2020. 5. 3. 서울", "1. 서론"): Korean sentences end in a verb.
    if text[stop] == "." and text[stop - 1 : stop].isdecimal():
        return text[following].isascii() and not text[following].isdecimal()
    if text[stop - 1 : stop] >= "가":
        return True
    return _ends_sentence(text, begin, match)


def _breaks_without_blank(text: str, match: re.Match[str]) -> bool:
    """True after 。 and its kin, and in "갔다.그는": Hangul, an ending, a stop, Hangul."""
    following = match.end()
    if any(stop in match[1] for stop in "。！？"):
        return _QUOTATIVE.match(text, following) is None or match[1][-1] in "。！？"
    is_syllable = "가" <= text[following] <= "힣"
    return is_syllable and _KOREAN_ENDING.match(text, match.start() - 2) is not None
