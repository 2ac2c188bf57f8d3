"""WikiExtractor output: title, headings and leftovers go, and every line that goes is counted."""

from collections import Counter

import pytest

from bertsmith.reading import passages as rules
from bertsmith.reading import wikiextractor
from bertsmith.reading.markup import clean_leftovers, marks_in

DOCUMENT = """
<doc id="12" url="http://en.wikipedia.org/wiki?curid=12" title="Anarchism">
Anarchism

Anarchism is a political philosophy ( ; ) of some age.<br>It holds the state to be harmful.
Etymology and terminology.
The word comes from the Greek.
 | a row of a table
Median age:
----
"""


def cleaned(line: str) -> str:
    return clean_leftovers(line, marks_in(line))


def test_passages_stay_and_everything_else_is_counted():
    skipped = Counter()
    assert wikiextractor.passages(DOCUMENT, skipped) == [
        "Anarchism is a political philosophy of some age. It holds the state to be harmful.",
        "The word comes from the Greek.",
    ]
    assert skipped == {
        wikiextractor.TITLES: 1,
        wikiextractor.TABLES: 1,
        rules.HEADINGS: 1,
        rules.FRAGMENTS: 1,
        rules.SEPARATORS: 1,
    }


def test_a_document_of_a_title_only_has_no_passage():
    assert wikiextractor.passages('<doc id="1" url="" title="A">\nA\n', Counter()) == []


def test_the_second_piece_of_a_cut_document_keeps_its_first_line():
    assert wikiextractor.passages("It was a long article.\n", Counter()) == [
        "It was a long article."
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Seoul (; ) is a city.", "Seoul is a city."),
        ("카터 주니어(, 1924년 10월 1일 ~ )는", "카터 주니어(1924년 10월 1일 ~)는"),
        ("독일어() 이름", "독일어 이름"),
        ("a {{Citation|{{x}}}} b", "a b"),
        ("The text. {{#if: | rest", "The text."),
        ("See [[Seoul|the city]] and [[Busan]].", "See the city and Busan."),
        ("[[분류:미국의 반핵무기 운동가]]", ""),
        ("[[File:a.jpg|thumb|A [[b|c]] d]] Text.", "Text."),
        ("Love [http://x.org/a the site] so [https://y.org].", "Love the site so."),
        ("It&apos;s AT&T&nbsp;&lt;x", "It's AT&T <x"),
        ("where formula_12 is codice_3", "where formula is code"),
        ("''Italic'' and '''bold'''", "Italic and bold"),
        ("H<sub>2</sub>O<br/>3 < 4 and 5 > 4", "H2O 3 < 4 and 5 > 4"),
        ("Plain text (1990), as it is.", "Plain text (1990), as it is."),
    ],
)
def test_leftovers_are_cleaned(line, expected):
    assert cleaned(line).strip() == expected
