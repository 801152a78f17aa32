"""Every entry of the glossary has its anchor, and every link to an entry lands on one."""

import re

import pytest

from course_lib.book import glossary
from course_lib.book.chapters import read_chapter
from course_lib.book.outline import ROOT, chapter_files

TEXT = (ROOT / "chapters" / "glossary.md").read_text(encoding="utf-8")
TOY = """\
# Glossary

Introduction.

<a id="acc"></a>**acc**: a sum. [07]

<a id="lse"></a>**lse (log-sum-exp)**: a logarithm. [01]
"""


def test_every_entry_has_the_anchor_of_its_word():
    found = glossary.entries(TEXT)
    words = [word for word, _ in found.values()]
    assert len(found) == TEXT.count("**: ") == TEXT.count("<a id=") > 100
    assert list(found) == [glossary.anchor(word, words) for word in words]
    assert {"warp", "lse", "m-l", "slot-for-a-block", "slot-of-a-token", "fp8"} <= found.keys()


def test_every_link_to_an_entry_lands_on_one():
    anchors, links = glossary.entries(TEXT), 0
    for path in chapter_files():
        for cell in read_chapter(path).cells:
            for anchor in re.findall(r"glossary\.md#([^)]*)\)", cell.source):
                assert anchor in anchors, f"{path.name}: glossary.md#{anchor}"
                links += 1
    assert links >= 25


@pytest.mark.parametrize("path", chapter_files(), ids=lambda path: path.stem)
def test_a_word_that_is_an_entry_is_linked_to_the_entry(path):
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"\[([^\]]+)\]\(\.\./chapters/glossary\.md\)", text)) <= {"glossary"}


def test_on_the_site_entries_are_terms_and_links_lead_to_them():
    page = glossary.on_the_site(TOY)
    assert page.startswith("# Glossary\n\nIntroduction.\n\n````{glossary}\nacc\n  a sum. [07]\n\nlse (log-sum-exp)\n")
    assert glossary.on_the_site(TEXT).count("\n  ") == len(glossary.entries(TEXT))
    text = "a [**sum**](../chapters/glossary.md#lse), [all](../chapters/glossary.md)"
    linked = glossary.links_on_the_site(text, glossary.entries(TOY))
    start = '<a class="reference internal" href="../chapters/glossary.html#term-lse-log-sum-exp">'
    assert linked == f"a {start}**sum**</a>, [all](../chapters/glossary.md)"
