"""MediaWiki dumps: articles only, text passages only, streaming."""

import io
import time
import tracemalloc
from collections import Counter

import pytest

from bertsmith.reading import mediawiki
from bertsmith.reading import passages as rules
from bertsmith.reading.compressed import Member

ARTICLE = """{{Infobox country|name={{lang|ko|대한민국}}|area={{convert|100|km2}}}}
[[File:Flag.svg|thumb|The [[flag]] of it.]]
'''Korea''' ({{lang-ko|한국}}) is a [[region|country]] in [[Asia]].<ref name="a">A {{b|c}}</ref>
It is<ref name="a" /> {{convert|1,100|km|mi}} long<!-- hidden --> and
has mountains.&nbsp;Its area is <math>a^2</math>.

== History ==
{| class="wikitext"
! head
|-
| cell {| nested
| inner
|}
|}
* A list item that is a sentence.
# Another one.
: An indented one.
The ''Three Kingdoms''&mdash;see [http://x.org the site]&mdash;came later. [[Category:A]]
[[ko:한국]]
 preformatted text
<gallery>
File:A.jpg|A caption.
</gallery>
Not a sentence
{{Reflist}}
__NOTOC__
"""


def test_an_article_gives_its_text_passages_and_counts_the_rest():
    skipped = Counter()
    assert mediawiki.passages(ARTICLE, skipped) == [
        "Korea (한국) is a country in Asia.",
        "It is 1,100 km long and has mountains. Its area is formula.",
        "The Three Kingdoms—see the site—came later.",
    ]
    assert skipped == {
        rules.HEADINGS: 1,
        mediawiki.TABLES: 2,
        mediawiki.LISTS: 3,
        mediawiki.PREFORMATTED: 1,
        rules.FRAGMENTS: 1,
    }


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("<center>One sentence.<br/>And another.</center>", "One sentence. And another."),
        ("He was born ({{birth date|1990}}) there.", "He was born there."),
        ("Nested {{a|{{b|{{c}}}}}} templates go.", "Nested templates go."),
        ("A {{ndash}} B stays.", "A – B stays."),
        ("[[:Category:Asia]] is shown.", "Category:Asia is shown."),
        ("[[Seoul]]ites live there.", "Seoulites live there."),
        ("Here <nowiki>x</nowiki> and <b>bold</b> stay.", "Here x and bold stay."),
        ("서울은 [[대한민국|한국]]의 수도이다.", "서울은 한국의 수도이다."),
    ],
)
def test_inline_markup_becomes_text(wikitext, expected):
    assert mediawiki.passages(wikitext, Counter()) == [expected]


def test_unclosed_markup_drops_its_line_only():
    skipped = Counter()
    text = "A sentence before.\n{{Infobox without an end\nA sentence after."
    assert mediawiki.passages(text, skipped) == ["A sentence before.", "A sentence after."]
    assert skipped == {mediawiki.PREFORMATTED: 1}


@pytest.mark.parametrize("unclosed", ["<ref>", "\n{|", "[[", "{{", "<!--", "[http://", "<a "])
def test_unclosed_markup_takes_no_quadratic_time(unclosed):
    start = time.process_time()
    mediawiki.passages(unclosed * 4000 + "word and another word. " * 10_000, Counter())
    # A quadratic expression takes over ten seconds here, a linear one a few tenths of one.
    assert time.process_time() - start < 4


def dump(*pages: str) -> Member:
    xml = (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">{"".join(pages)}</mediawiki>'
    )
    return Member(name="dump.xml", stream=io.BytesIO(xml.encode()), position=lambda: 0)


def page(text: str, namespace: int = 0, more: str = "") -> str:
    return (
        f"<page><title>T</title><ns>{namespace}</ns>{more}<revision><model>wikitext</model>"
        f"<text>{text}</text></revision></page>"
    )


def test_only_articles_are_read_and_the_others_counted():
    skipped = Counter()
    found = mediawiki.pages(
        dump(
            page("One &amp; only."),
            page("A talk.", namespace=1),
            page("#REDIRECT [[A]]", more='<redirect title="A"/>'),
            page("Two."),
        ),
        skipped,
    )
    assert list(found) == ["One & only.", "Two."]
    assert skipped == {mediawiki.OTHER_NAMESPACES: 1, mediawiki.REDIRECTS: 1}


def test_a_dump_is_read_in_bounded_memory():
    source = dump(*[page("A sentence of text. " * 500)] * 1000)
    tracemalloc.start()
    assert sum(1 for _ in mediawiki.pages(source, Counter())) == 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_cut_dump_is_named_with_its_line():
    source = dump(page("One."))
    source.stream.seek(0)
    cut = io.BytesIO(source.stream.read()[:-30])
    with pytest.raises(ValueError, match=r"dump\.xml:1: not well-formed XML"):
        list(mediawiki.pages(Member(name="dump.xml", stream=cut, position=lambda: 0), Counter()))
