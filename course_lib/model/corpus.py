"""The text that the small model learns from, its tokenizer and its tokens.

    python -m course_lib.model.corpus --out build/corpus

Three sources, all at hand and free: the chapters of the course (MIT), the topics of Python's help (pydoc_data), and
the docstrings of Python's standard library with the signatures that they belong to (both: PSF licence). What comes
from Python varies with its version, so the hash of the text and the version go into the model card.

May import: errors, numpy, tokenizers inside functions.
"""

import argparse
import ast
import hashlib
import json
import platform
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
END_OF_TEXT = "<|endoftext|>"  # token 0, between two documents and before a text
VOCAB_SIZE = 4096
HELD_OUT = 16  # one document of so many is kept for validation, by the hash of its name
EXCERPT_CHARACTERS = 4000
# of the standard library: tests, generated tables, programs and bundled copies
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "dist-packages", "encodings"}
SKIPPED |= {"pydoc_data", "_bundled", "__pycache__", "__phello__"}


@dataclass(frozen=True)
class Document:
    """One text of the corpus; `name` begins with its source: chapters, topics or docstrings."""

    name: str
    text: str

    @property
    def held_out(self):
        """Whether the document is kept for validation."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % HELD_OUT == 0


@dataclass(frozen=True)
class Facts:
    """What the model card says about the corpus.

    Attributes
    ----------
    sha256 : str, over names and texts of all documents in order
    python : str, the version whose library was read
    characters : dict, source -> characters
    documents, held_out_documents, train_tokens, validation_tokens : int
    """

    sha256: str
    python: str
    characters: dict
    documents: int
    held_out_documents: int
    train_tokens: int = 0
    validation_tokens: int = 0


def documents(chapters=ROOT / "chapters", library=None):
    """Every Document of the corpus, in an order that the names alone decide.

    Parameters
    ----------
    chapters : path of a folder of Markdown files
    library : path of a folder of Python files, or None: the standard library of the Python that runs
    """
    from pydoc_data.topics import topics

    library = Path(library or sysconfig.get_path("stdlib"))
    found = [Document(f"chapters/{path.name}", path.read_text("utf-8")) for path in sorted(Path(chapters).glob("*.md"))]
    found += [Document(f"topics/{name}", text) for name, text in sorted(topics.items())]
    for path in library_files(library):
        text = docstrings(path.read_text("utf-8", errors="replace"))
        if text:
            found.append(Document(f"docstrings/{path.relative_to(library).as_posix()}", text))
    return [Document(document.name, tidy(document.text)) for document in found]


def library_files(library):
    """The Python files of a library that are read, sorted by their relative path."""
    files = (path for path in Path(library).rglob("*.py") if not path.name.startswith("_sysconfigdata"))
    kept = (path for path in files if not SKIPPED & set(path.relative_to(library).parts))
    return sorted(kept, key=lambda path: path.relative_to(library).as_posix())


def docstrings(source):
    """The docstrings of one Python file under the signatures that they belong to; "" where there is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a file of another Python version
        return ""
    lines = [*_quoted(ast.get_docstring(tree), ""), *_members(tree, "")]
    return "\n".join(lines)


def _members(node, indent):
    """Lines of the classes and functions of `node` that have a docstring, or members with one."""
    lines = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inner = indent + "    "
        body = _quoted(ast.get_docstring(child), inner)
        if isinstance(child, ast.ClassDef):
            body += _members(child, inner)
        if body:
            lines += ["", indent + _signature(child), *body]
    return lines


def _signature(node):
    """The first line of a class or a function."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}:"


def _quoted(text, indent):
    """A docstring as indented lines with its quotes, or no line."""
    if not text:
        return []
    first, *rest = f'"""{text}"""'.split("\n")
    return [indent + first, *(indent + line if line.strip() else "" for line in rest)]


def tidy(text):
    """Lines without trailing blanks, at most one empty line between two, one newline at the end."""
    lines, kept = [line.rstrip() for line in text.expandtabs().strip("\n").split("\n")], []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept) + "\n"


def facts(found):
    """Facts of some documents; the counts of tokens are still 0."""
    digest, characters = hashlib.sha256(), {}
    for document in found:
        digest.update(f"{document.name}\0{document.text}\0".encode())
        source = document.name.partition("/")[0]
        characters[source] = characters.get(source, 0) + len(document.text)
    held_out = sum(document.held_out for document in found)
    return Facts(digest.hexdigest(), platform.python_version(), characters, len(found), held_out)


def train_tokenizer(texts, vocab_size=VOCAB_SIZE):
    """A byte-level BPE tokenizer of `vocab_size` tokens; every text has a code, since all 256 bytes are tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def pack(found, tokenizer):
    """All documents as one row of tokens, END_OF_TEXT before each; (num_tokens,), uint16."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    codes = tokenizer.encode_batch([document.text for document in found])
    return np.array([token for code in codes for token in (end, *code.ids)], dtype=np.uint16)


def write(folder, found, vocab_size=VOCAB_SIZE):
    """Write train.npy, validation.npy, tokenizer.json, excerpt.txt and corpus.json; returns the Facts.

    Raises
    ------
    CourseError  no document is held out, or the corpus is too small for so many tokens
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    training, held_out = ([item for item in found if item.held_out is kind] for kind in (False, True))
    if not training or not held_out:
        raise CourseError(
            f"{len(training)} documents to learn from and {len(held_out)} held out; expected some of both."
        )
    tokenizer = train_tokenizer((document.text for document in training), vocab_size)
    if tokenizer.get_vocab_size() != vocab_size:
        raise CourseError(f"the text gives {tokenizer.get_vocab_size()} tokens; expected vocab_size={vocab_size}.")
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = {"train": pack(training, tokenizer), "validation": pack(held_out, tokenizer)}
    for name, packed in tokens.items():
        np.save(folder / f"{name}.npy", packed)
    (folder / "excerpt.txt").write_text(excerpt(held_out), "utf-8")
    counts = {"train_tokens": len(tokens["train"]), "validation_tokens": len(tokens["validation"])}
    described = Facts(**asdict(facts(found)) | counts)
    (folder / "corpus.json").write_text(json.dumps(asdict(described), indent=2) + "\n", "utf-8")
    return described


def excerpt(held_out):
    """The beginning of the longest topic that is held out: what a stored model's loss is tested on."""
    topics = [document.text for document in held_out if document.name.startswith("topics/")]
    text = max(topics or [document.text for document in held_out], key=len)[:EXCERPT_CHARACTERS]
    return text[: text.rfind("\n") + 1]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m course_lib.model.corpus", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for tokens, tokenizer and facts")
    options = parser.parse_args(arguments)
    described = write(options.out, documents())
    print(json.dumps(asdict(described), indent=2))


if __name__ == "__main__":
    main()
