"""14.4 Match and split: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, played, say


def _insert(tokens, pages, salt=""):
    return "insert", 0, salt, list(tokens), list(pages)


def _match(number, tokens, salt=""):
    return "match", number, salt, list(tokens), []


def _release(number):
    return "release", number, "", [], []


PROMPT = (5, 6, 7, 8, 9, 4)
TWICE = [  # a prompt of whole pages, sent twice
    (
        [
            _match(1, PROMPT),
            _insert(PROMPT, (3, 0, 8)),
            _match(2, PROMPT),
            _match(3, (*PROMPT, 1)),
            _match(4, PROMPT[:5]),
        ],
        2,
    ),
    ([_insert((5,), (3,)), _match(1, (5,)), _match(2, (5, 5)), _release(1), _release(2)], 1),
    ([_insert(PROMPT[:3], (3,)), _match(1, PROMPT[:4]), _insert(PROMPT[:4], (3,)), _match(2, PROMPT[:4])], 4),
]  # fmt: skip
PARTS = [  # nodes that match in part, while requests hold them
    ([_insert(PROMPT, (3, 0, 8)), _match(1, (5, 6, 7, 8, 2, 2, 2)), _release(1)], 2),
    ([_insert(PROMPT, (3, 0, 8)), _match(1, (*PROMPT, 1)), _match(2, (5, 6, 1, 1, 1)), _release(1), _release(2)], 2),
    ([_insert(PROMPT, (3, 0, 8)), _match(1, (*PROMPT, 1)), _match(2, (5, 6, 7, 7, 1)), _match(3, (5, 6, 8, 7)),
      _insert((5, 6, 7, 8, 1, 1), (3, 0, 9)), _match(4, (5, 6, 7, 8, 1, 1, 1)), _release(1), _release(4), _release(2),
      _release(3)], 2),
    ([_insert(PROMPT, (3, 0, 8)), *(_match(number, (*PROMPT, 1)) for number in (1, 2, 3)), _match(4, (5, 6, 7, 7, 1)),
      *map(_release, (2, 4, 1, 3))], 2),
    ([_insert(PROMPT, (3, 0, 8)), _insert((*PROMPT, 1, 2), (3, 0, 8, 9)), _match(1, (*PROMPT, 1, 2, 7)),
      _match(2, (*PROMPT, 7)), _match(3, (5, 6, 7, 8, 1)), _match(4, (5, 6, 1, 1)), *map(_release, (2, 4, 1, 3))], 2),
]  # fmt: skip
LONG = tuple(range(1, 46))
DEEP = [([*(_insert(LONG[:end], range(100, 100 + end)) for end in LONG), _match(1, (*LONG, 1)), _release(1)], 1)]


def _long(rng):
    """A node of 70 pages and one of pages of 128 tokens, matched whole and nearly whole."""
    calls = []
    for num_pages, page_size in ((70, 9), (5, 128)):
        text = [rng.randrange(3) for _ in range(num_pages * page_size)]
        end = len(text) - page_size // 2  # within the last page
        other = [*text[:end], 3 - text[end], *text[end + 1 :], 1]
        calls.append(([_insert(text, range(num_pages)), _match(1, [*text, 1]), _match(2, other)], page_size))
    return calls


SALTS = [
    ([_insert(PROMPT, (3, 0, 8)), _match(1, (*PROMPT, 1), "b"), _insert(PROMPT, (1, 2, 4), "b"), _match(2, PROMPT, "b"),
      _match(3, PROMPT), _match(4, PROMPT, "B"), _release(1), _release(2)], 2),
]  # fmt: skip
PREFIX = [  # the same page after another prefix
    ([_insert((1, 2, 3, 4), (3, 0)), _insert((9, 2, 3, 4), (5, 6)), _match(1, (3, 4, 1)), _match(2, (9, 9, 3, 4, 1)),
      _match(3, (9, 2, 3, 4, 1))], 2),
    ([_insert((1, 2, 3, 4), (3, 0)), _match(1, (1, 2, 4, 3, 7)), _match(2, (1, 2, 3, 7, 7)), _match(3, (2, 1, 3, 4))],
     2),
]  # fmt: skip


def _drawn(count, page_sizes):
    """Operations on texts that share prefixes; at the end every request releases what it holds."""

    def make(rng):
        return [_operations(rng, rng.choice(page_sizes)) for _ in range(count)]

    return make


def _operations(rng, page_size):
    ids = rng.choice(((1, 2), (1, 1 + 2**16)))
    texts, held, operations, pages = [()], [], [], iter(rng.sample(range(5000), 5000))
    for number in range(rng.randint(4, 12)):
        known = rng.choice(texts)
        tail = rng.randint(0, 4 * page_size)
        text = (*known[: rng.randint(0, len(known))], *(rng.choice(ids) for _ in range(tail)))
        text, salt = text or (1,), rng.choice(("", "", "", "a"))
        if rng.random() < 0.5:
            texts.append(text)
            operations.append(_insert(text, [next(pages) for _ in range(len(text) // page_size)], salt))
        else:
            operations.append(_match(number, text, salt))
            held.append(number)
        if held and rng.random() < 0.3:
            operations.append(_release(held.pop(rng.randrange(len(held)))))
    rng.shuffle(held)
    return [*operations, *map(_release, held)], page_size


EXERCISE = plain_exercise(
    __file__,
    cases={
        "the same prompt again": lambda rng: TWICE,
        "nodes that match in part": lambda rng: PARTS,
        "a node under a node, 45 times": lambda rng: DEEP,
        "long nodes": _long,
        "salts": lambda rng: SALTS,
        "another prefix": lambda rng: PREFIX,
        "drawn": _drawn(24, (1, 2, 3)),
        "drawn, pages of 16": _drawn(4, (16,)),
    },
    form=[([int], list)],
    outcome=played,
    say=say,
    mistakes=MISTAKES,
)
