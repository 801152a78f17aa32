"""Text to tokens and back, by the tokenizers library.

May import: errors, expect, tokenizers.
"""

import os
from pathlib import Path

from .. import expect
from ..errors import ModelError


def load_tokenizer(folder):
    """The tokenizers.Tokenizer in folder/tokenizer.json: encode(text).ids, decode(ids).

    Raises
    ------
    ModelError  there is no such file, or it describes no tokenizer
    """
    from tokenizers import Tokenizer

    expect.kind("folder", folder, (str, os.PathLike), error=ModelError)
    path = Path(folder) / "tokenizer.json"
    if not path.exists():
        raise ModelError(f"{folder} has no tokenizer.json; without one, give the model tokens in place of text.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{path} describes no tokenizer: {str(error).splitlines()[0]}") from None


class TextStream:
    """Text as its tokens come: a character of several tokens is given when its last one is there.

    Decoding token by token would show U+FFFD for each part of such a character.
    """

    def __init__(self, tokenizer):
        from tokenizers import Tokenizer
        from tokenizers.decoders import DecodeStream

        expect.kind("tokenizer", tokenizer, Tokenizer, how="load_tokenizer(folder) gives one", error=ModelError)
        self.tokenizer, self.stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def add(self, token):
        """The text that `token` completes; "" where a character is not whole yet."""
        return self.stream.step(self.tokenizer, expect.whole("token", token, 0, error=ModelError)) or ""
