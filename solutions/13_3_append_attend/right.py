"""Right answers to 13.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SCATTERED = """import torch


def attend_cached(q, k, v, k_cache, v_cache, lengths):
    num_new, head_dim = q.shape[-2:]
    num_kv_heads, capacity = k_cache.shape[1:3]
    places = lengths[:, None] + torch.arange(num_new)
    index = places[:, None, :, None].expand_as(k)
    k_cache, v_cache = k_cache.scatter(2, index, k), v_cache.scatter(2, index, v)
    sees = torch.arange(capacity) <= places[:, :, None]
    used = (torch.arange(capacity) < lengths[:, None] + num_new)[:, None, :, None]
    keys, values = torch.where(used, k_cache, 0.0), torch.where(used, v_cache, 0.0)
    grouped = q.unflatten(1, (num_kv_heads, -1))
    scores = torch.einsum("bgrnd,bgcd->bgrnc", grouped, keys) / head_dim**0.5
    weights = scores.masked_fill(~sees[:, None, None], -torch.inf).softmax(-1)
    return torch.einsum("bgrnc,bgcd->bgrnd", weights, values).flatten(1, 2), k_cache, v_cache
"""

ANSWERS = [
    Right("whole batch by scatter, new caches", text=SCATTERED),
    Right(
        "token by token",
        (
            (
                "        scores = q[row] @ keys.transpose(1, 2) * head_dim**-0.5\n"
                "        hidden = torch.arange(end) > length + torch.arange(num_new)[:, None]\n"
                "        out[row] = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values\n",
                "        for new in range(num_new):\n"
                "            last = length + new + 1\n"
                "            scores = (keys[:, :last] @ q[row, :, new, :, None])[..., 0] / head_dim**0.5\n"
                "            out[row, :, new] = (torch.softmax(scores, 1)[:, None] @ values[:, :last])[:, 0]\n",
            ),
        ),
    ),
    Right(
        "torch's attention with a mask",
        (
            (
                "        scores = q[row] @ keys.transpose(1, 2) * head_dim**-0.5\n"
                "        hidden = torch.arange(end) > length + torch.arange(num_new)[:, None]\n"
                "        out[row] = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values\n",
                "        sees = torch.ones(num_new, end, dtype=torch.bool).tril(length)\n"
                "        out[row] = torch.nn.functional.scaled_dot_product_attention(q[row], keys, values, sees)\n",
            ),
        ),
    ),
]
