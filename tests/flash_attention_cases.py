"""What the tests of flash_attention on the CPU and on a GPU share: inputs, the rule of right, a model that trains."""

import torch
from torch import nn

from course_lib.grading.judge.comparison import compare
from course_lib.ops.flash_attention_2 import flash_attention_lse
from course_lib.reference import attention as reference
from course_lib.reference.attention_gradients import attention_gradients, gradient_terms, rounded_attention_gradients

# batch, heads, kv heads, queries, keys; the head_dim comes from the test
SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 4, 2, 9, 17),
    (1, 3, 1, 37, 53),
    (1, 2, 2, 50, 20),  # causal: the first 30 rows see nothing
    (1, 6, 2, 1, 70),
    (1, 2, 1, 128, 64),  # whole tiles
    (1, 8, 1, 65, 129),  # one more than a tile
]


def inputs(shape, head_dim, dtype, device, *, spread=1.0, seed=0):
    """q, k, v and d_out, standard normal; `spread` widens the scores."""
    batch, heads, kv_heads, num_q, num_kv = shape
    generator = torch.Generator().manual_seed(seed + num_q + num_kv)
    sizes = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *size, head_dim, generator=generator).to(dtype) for size in sizes)
    return [x.to(device) for x in (spread * q, k, v, d_out)]


def run(q, k, v, d_out, **options):
    """out, lse, dq, dk, dv of flash_attention on copies of the tensors that want a gradient."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out, lse = flash_attention_lse(*leaves, **options)
    return [out.detach(), lse, *torch.autograd.grad(out, leaves, d_out)]


def require_right(results, q, k, v, d_out, *, causal=False, softmax_scale=None):
    """Assert that results (out, lse, dq, dk, dv) are right by the rule of the grader, with its own baselines."""
    results, options = [x.cpu() for x in results], {"causal": causal, "softmax_scale": softmax_scale}
    q, k, v, d_out = (x.detach().cpu() for x in (q, k, v, d_out))
    largest_score = reference.rounded_scores(q.double(), k.double(), softmax_scale=softmax_scale).abs().max().item()
    out, lse = reference.attention_lse(q, k, v, **options)
    terms = [None, None, *gradient_terms(q, k, v, out, lse, d_out, **options)]
    _, base_lse = reference.rounded_attention_lse(q.float(), k.float(), v.float(), **options)
    refs = [out, lse, *attention_gradients(q, k, v, d_out, **options)]
    base_out = reference.rounded_attention(q, k, v, **options)
    bases = [base_out, base_lse, *rounded_attention_gradients(q, k, v, d_out, **options)]
    rules = ["weights", "lse", "backward", "backward", "backward"]
    names = "out lse dq dk dv".split()
    for name, got, ref, base, rule, sums in zip(names, results, refs, bases, rules, terms, strict=True):
        dtype = torch.float32 if name == "lse" else q.dtype
        result = compare(got, ref, base, dtype, rule, largest_score=largest_score, terms=sums)
        cancelled = rule == "backward" and result.max_error <= _cancellation(q, k, v, d_out, softmax_scale)
        message = f"{name}: {result.kind}, (error, allowed) {result.nearest}"
        assert result.passed or cancelled, message


def _cancellation(q, k, v, d_out, softmax_scale):
    """What d_probs - D may leave of a zero: both are float32 sums of head_dim products, rounded in their own order.

    A row that sees one key has no gradient but this; the baseline, by luck, may add both up in the same order.
    """
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else abs(softmax_scale)
    eps, wide = torch.finfo(torch.float32).eps, reference.of_each_query_head(v, q).double().abs()
    return q.shape[-1] * eps * (d_out.double().abs() @ wide.mT).max() * max(x.abs().max() for x in (q, k)) * scale


class TwoLayers(nn.Module):
    """Two causal transformer blocks that predict the next token; `attend(q, k, v)` is the attention under test."""

    def __init__(self, attend, *, num_tokens=13, width=32, num_heads=2, num_kv_heads=1, dtype=torch.float32):
        super().__init__()
        self.attend, self.num_heads, self.num_kv_heads, self.dtype = attend, num_heads, num_kv_heads, dtype
        head_dim = width // num_heads
        self.embed, self.head = nn.Embedding(num_tokens, width), nn.Linear(width, num_tokens)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, (num_heads + 2 * num_kv_heads) * head_dim),
                    "out": nn.Linear(width, width),
                    "mlp": nn.Sequential(
                        nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
                    ),
                }
            )
            for _ in range(2)
        )

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            heads = block["qkv"](block["norm"](x)).to(self.dtype).unflatten(-1, (-1, x.shape[-1] // self.num_heads))
            q, k, v = heads.transpose(1, 2).split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
            attended = self.attend(q, k, v).to(x.dtype).transpose(1, 2).flatten(2)  # q, k, v are strided views
            x = x + block["out"](attended)
            x = x + block["mlp"](x)
        return self.head(x)


def losses(attend, num_steps, *, device, seq_len=48, batch_size=4, lr=0.05, seed=0, **sizes):
    """The loss of every step of training on sequences in which each token follows from the one before."""
    torch.manual_seed(seed)
    model = TwoLayers(attend, **sizes).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    generator, num_tokens, curve = torch.Generator().manual_seed(seed), model.head.out_features, []
    for _ in range(num_steps):
        tokens = torch.randint(num_tokens, (batch_size, 1), generator=generator)
        tokens = (tokens + 5 * torch.arange(seq_len + 1)).remainder(num_tokens).to(device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        curve.append(loss.item())
    return torch.tensor(curve, dtype=torch.float64)
