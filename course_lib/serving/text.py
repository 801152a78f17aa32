"""The text of a request as its tokens come, and where it stops.

A character may be several tokens and a stop string may begin in one token and end in another, so what is given out
lags behind the tokens: never part of a character, never the beginning of a stop string.

May import: expect, model.tokenizer.
"""

from .. import expect
from ..model.tokenizer import TextStream


class TextOutput:
    """Text of one request: `add` tokens, give out what it returns, `finish` once at the end.

    All pieces together are the decoded text, cut before the first stop string that is complete; the pieces depend on
    how the tokens come, the text does not.

    Attributes
    ----------
    stopped : str or None, the stop string that the text has reached; nothing follows it
    """

    def __init__(self, tokenizer, stop=()):
        self.tokenizer, self.stop, self.stopped = tokenizer, expect.words("stop", stop), None
        self._stream, self._pending, self._held = TextStream(tokenizer), [], ""

    def add(self, tokens):
        """The text that may be given out now that `tokens` follow, "" where it is not certain yet."""
        tokens = expect.tokens("tokens", tokens)
        return "".join(self._given_out(self._decoded(token)) for token in tokens if self.stopped is None)

    def finish(self):
        """What was held back; a character whose last token never came is U+FFFD."""
        if self.stopped is not None:
            return ""
        text, self._held = self._held + self.tokenizer.decode(self._pending), ""
        return text

    def _decoded(self, token):
        self._pending.append(token)
        text = self._stream.add(token)
        if text:
            self._pending = []
        return text

    # region: give
    def _given_out(self, text):
        self._held += text
        ends = {each: self._held.find(each) + len(each) for each in self.stop if each in self._held}
        if ends:  # what is complete first; of those that end together the longest
            self.stopped = min(ends, key=lambda each: (ends[each], -len(each)))
            return self._held[: ends[self.stopped] - len(self.stopped)]
        text, self._held = self._split(self._held)
        return text

    # endregion
    # region: hold
    def _split(self, text):
        """(what may be given out, the longest end of `text` with which a stop string begins)."""
        longest = max(map(len, self.stop), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(each.startswith(text[-size:]) for each in self.stop):
                return text[:-size], text[-size:]
        return text, ""

    # endregion
