"""The glossary's entries and their anchors: ``glossary.md#warp`` is the entry "warp".

Each entry is one line, ``<a id="warp"></a>**warp**: …``; JupyterLab's preview and code hosts land on such an anchor.
On the site an entry is a term of Sphinx, which has an anchor of its own.

May import: nothing of the course.
"""

import re

_ENTRY = re.compile(r'^<a id="([^"]*)"></a>\*\*(.+?)\*\*: (.*)$', re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(\.\./chapters/glossary\.md#([a-z0-9-]+)\)")


def entries(text):
    """Anchor -> (word, meaning) of every entry, in order."""
    return {anchor: (word, meaning) for anchor, word, meaning in _ENTRY.findall(text)}


def anchor(word, words):
    """The anchor of a word: "lse (log-sum-exp)" has "lse"; the brackets stay where another of `words` begins so."""
    short = word.partition(" (")[0]
    alone = sum(other.partition(" (")[0] == short for other in words) == 1
    return re.sub(r"[^a-z0-9]+", "-", (short if alone else word).lower()).strip("-")


def on_the_site(text):
    """The glossary with every entry as a term that pages and the search can point to."""
    head, _, _ = text.partition("\n<a id=")
    lines = [f"{word}\n  {meaning}\n" for word, meaning in entries(text).values()]
    return f"{head.rstrip()}\n\n````{{glossary}}\n" + "\n".join(lines) + "````\n"


def links_on_the_site(text, words):
    """Links to entries in the text of a page of a notebook, as the site has them; `words` are those of `entries`."""

    def link(match):
        term = re.sub(r"[^a-zA-Z0-9._]+", "-", words[match[2]][0]).strip("-._")  # as Sphinx makes ids
        return f'<a class="reference internal" href="../chapters/glossary.html#term-{term}">{match[1]}</a>'

    return _LINK.sub(link, text)
