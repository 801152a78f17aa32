"""Right answers to 00.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SCORES = "scores = k @ q "
SCALE = "scores = scores * q.shape[0] ** -0.5"
PROBS = "probs = torch.softmax(scores, dim=0)"
RETURN = "return probs @ v"

KEY_BY_KEY = """import math

import torch


def attention_row(q, k, v):
    m, l, acc = -math.inf, 0.0, torch.zeros_like(v[0])
    for key, value in zip(k, v, strict=True):
        score = float(torch.dot(q, key)) / math.sqrt(len(q))
        m_new = max(m, score)
        alpha, term = math.exp(m - m_new), math.exp(score - m_new)
        m, l, acc = m_new, l * alpha + term, acc * alpha + term * value
    return acc / l
"""

TWO_PARTS = """import torch


def part(q, k, v):
    scores = k @ q / q.shape[0] ** 0.5
    lse = torch.logsumexp(scores, dim=0)
    return torch.exp(scores - lse) @ v, lse


def attention_row(q, k, v):
    half = (len(k) + 1) // 2
    out, lse = part(q, k[:half], v[:half])
    if half == len(k):
        return out
    other, other_lse = part(q, k[half:], v[half:])
    share = torch.sigmoid(lse - other_lse)
    return share * out + (1.0 - share) * other
"""

ANSWERS = [
    Right("key by key", text=KEY_BY_KEY),
    Right("two parts, merged", text=TWO_PARTS),
    Right("scale in the query", ((SCORES, "scores = k @ (q / q.shape[0] ** 0.5) "), (SCALE, "pass"))),
    Right("own softmax", ((PROBS, "probs = torch.exp(scores - scores.max())\n    probs = probs / probs.sum()"),)),
    Right(
        "divided at the end",
        ((PROBS, "probs = torch.exp(scores - scores.max())"), (RETURN, "return probs @ v / probs.sum()")),
    ),
    Right(
        "base 2",
        (
            (PROBS, "probs = torch.exp2((scores - scores.max()) * 1.4426950408889634)"),
            (RETURN, "return probs @ v / probs.sum()"),
        ),
    ),
    Right(
        "matrices of one row", ((SCORES, "scores = (q[None, :] @ k.T)[0] "), (RETURN, "return (probs[None, :] @ v)[0]"))
    ),
    Right(
        "einsum",
        ((SCORES, 'scores = torch.einsum("d,nd->n", q, k) '), (RETURN, 'return torch.einsum("n,nd->d", probs, v)')),
    ),
    Right(
        "double precision inside",
        ((SCORES, "scores = k.double() @ q.double() "), (RETURN, "return (probs @ v.double()).float()")),
    ),
    Right("numpy for the sum", ((RETURN, "return torch.from_numpy(probs.numpy() @ v.numpy())"),)),
    Right("log-sum-exp", ((PROBS, "probs = torch.exp(scores - torch.logsumexp(scores, dim=0))"),)),
    Right("columns first", ((RETURN, "return v.T @ probs"),)),
    Right("reciprocal root", ((SCALE, "scores *= torch.rsqrt(torch.tensor(float(k.shape[1])))"),)),
]
