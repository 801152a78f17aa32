"""Where the loops of an answer are: an endless one is named by its own line, not by a line in or before it.

May import: answer.loading.
"""

import ast
import re

from ..answer import loading

_LOOP = re.compile(r"\b(?:while|for|do)\b")


def of_python(source, filename="answer", first_line=1):
    """[(first line, last line, whether it is a while)] of the loops of a Python text, in the learner's numbering."""
    found = []
    for text, _, line in loading.split(source, filename, first_line):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        loops = (node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For))
        found += [(n.lineno + line - 1, n.end_lineno + line - 1, isinstance(n, ast.While)) for n in loops]
    return found


def around(lines, loops):
    """Line of the loop in which an answer hangs: of a while before a for, of an inner call's before an outer one's.

    Parameters
    ----------
    lines : where the answer was, the innermost call first
    loops : as of_python gives them
    """
    for whiles in (True, False):
        for line in lines:
            inside = [first for first, last, is_while in loops if first <= line <= last and is_while == whiles]
            if inside:
                return max(inside)
    return None


def first_of_cuda(source, first_line, line):
    """Line of the first loop at or after `line` of a CUDA text; `line` itself where there is none."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])  # noqa: E731
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, source, flags=re.DOTALL)
    lines = [number for number, text in enumerate(plain.splitlines(), first_line) if _LOOP.search(text)]
    return next((number for number in lines if number >= line), line)
