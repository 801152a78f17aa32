"""Right answers to 03.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOG_SPACE = """import torch


def merge(m_a, l_a, m_b, l_b):
    m = torch.maximum(m_a, m_b)
    lse = torch.logaddexp(m_a + torch.log(l_a), m_b + torch.log(l_b))
    return m, torch.where(m == -torch.inf, torch.zeros_like(l_a), torch.exp(lse - m))
"""

BRANCHES = """import torch


def scaled(m_old, l_old, m):
    return torch.where(m_old == m, l_old, l_old * torch.exp(m_old - m))


def merge(m_a, l_a, m_b, l_b):
    m = torch.stack([m_a, m_b]).amax(dim=0)
    return m, scaled(m_a, l_a, m) + scaled(m_b, l_b, m)
"""

NUMPY = """import numpy
import torch


def merge(m_a, l_a, m_b, l_b):
    a, b = m_a.numpy(), m_b.numpy()
    m = numpy.maximum(a, b)
    shift = numpy.where(numpy.isneginf(m), numpy.float32(0.0), m)
    l = l_a.numpy() * numpy.exp(a - shift) + l_b.numpy() * numpy.exp(b - shift)
    return torch.from_numpy(m), torch.from_numpy(l)
"""

SEEN_ALONE = """import torch


def merge(m_a, l_a, m_b, l_b):
    m, l = torch.maximum(m_a, m_b), torch.zeros_like(l_a)
    seen = m > -torch.inf
    for m_part, l_part in ((m_a, l_a), (m_b, l_b)):
        l[seen] += l_part[seen] * torch.exp(m_part[seen] - m[seen])
    return m, l
"""

ANSWERS = [
    Right("numpy inside", text=NUMPY),
    Right("only the elements that saw something", text=SEEN_ALONE),
    Right(
        "double precision inside",
        (
            ("torch.where(m == -torch.inf, 0.0, m)", "torch.where(m == -torch.inf, 0.0, m.double())"),
            ("return m, l", "return m, l.float()"),
        ),
    ),
    Right(
        "base 2",
        (
            (
                "l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)",
                "l_a * torch.exp2((m_a - shift) * 1.442695041) + l_b * torch.exp2((m_b - shift) * 1.442695041)",
            ),
        ),
    ),
    Right("by logarithms", text=LOG_SPACE),
    Right("no factor for the larger one", text=BRANCHES),
    Right(
        "nan_to_num in place of a shift",
        (
            ("torch.where(m == -torch.inf, 0.0, m)", "m"),
            (
                "l = l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)",
                "l = l_a * torch.exp(m_a - m).nan_to_num(0.0) + l_b * torch.exp(m_b - m).nan_to_num(0.0)",
            ),
        ),
    ),
]
