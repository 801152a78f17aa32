"""Right answers to 11.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ONE_ROW = """import math
import torch


def mla_decode(q_nope, q_rope, latents, rope_keys, w_uk, w_uv):
    query = torch.cat([(q_nope[:, None] @ w_uk)[:, 0], q_rope], dim=1)
    rows = torch.cat([latents, rope_keys], dim=1)
    scores = query @ rows.T / math.sqrt(q_nope.shape[1] + q_rope.shape[1])
    m = scores.max(dim=1).values
    weights = (scores - m[:, None]).exp()
    l = weights.sum(1)
    summed = (weights @ rows)[:, : latents.shape[1]]
    return (w_uv @ summed[:, :, None])[:, :, 0] / l[:, None], m + l.log()
"""

HEAD_BY_HEAD = """import torch


def mla_decode(q_nope, q_rope, latents, rope_keys, w_uk, w_uv):
    outs, lses = [], []
    scale = (q_nope.shape[1] + q_rope.shape[1]) ** -0.5
    for head in range(len(q_nope)):
        scores = (latents @ (w_uk[head].T @ q_nope[head]) + rope_keys @ q_rope[head]) * scale
        m = scores.max()
        weights = torch.exp(scores - m)
        outs.append(w_uv[head] @ (weights @ latents / weights.sum()))
        lses.append(m + weights.sum().log())
    return torch.stack(outs), torch.stack(lses)
"""

TILES = """import torch


def mla_decode(q_nope, q_rope, latents, rope_keys, w_uk, w_uv):
    scale = (q_nope.shape[1] + q_rope.shape[1]) ** -0.5
    absorbed = torch.bmm(q_nope[:, None] * scale, w_uk)[:, 0]
    m, l = torch.full((len(q_nope), 1), -torch.inf), torch.zeros(len(q_nope), 1)
    acc = torch.zeros_like(absorbed)
    for c, k in zip(latents.split(32), rope_keys.split(32), strict=True):
        scores = absorbed @ c.T + q_rope * scale @ k.T
        m_new = torch.maximum(m, scores.amax(1, keepdim=True))
        p, alpha = torch.exp(scores - m_new), torch.exp(m - m_new)
        m, l, acc = m_new, l * alpha + p.sum(1, keepdim=True), acc * alpha + p @ c
    return torch.einsum("hc,hdc->hd", acc / l, w_uv), (m + l.log()).squeeze(1)
"""

ANSWERS = [
    Right("one row of latent and rope key, as the kernel has it", text=ONE_ROW),
    Right("head by head, absorbed", text=HEAD_BY_HEAD),
    Right("tiles of keys, online softmax", text=TILES),
]
