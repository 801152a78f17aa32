"""The learner's answers as operations of a model: each is launched as the contract of its exercise says.

A function here has the answer, the model's configuration and the operation's own arguments; it returns NotImplemented
where the contract does not cover them (another dtype, a filter that the exercise does not have).

May import: cuda, grading.answer, grading.exercise, grading.records, ops._foundation, model.course_kernels, torch.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

import torch

from .. import cuda
from ..grading.answer import loading
from ..grading.exercise import registry
from ..grading.records import work
from ..ops._foundation.launch import Launch
from ..ops._foundation.sizes import ceil_div, power_of_two
from .course_kernels import transposed

BLOCK_M, BLOCK_N, BLOCK_K = 16, 32, 32  # tiles: small, since prompts are short and an interpreter may run them
ROWS, BLOCK = 16, 128
MAX_COLUMNS = 20_000  # of 12.1


@dataclass(frozen=True)
class Answer:
    """The newest passing answer to an exercise.

    Attributes
    ----------
    exercise : str, its id
    path : Path, the file in work/
    """

    exercise: str
    path: Path
    _compiled: dict = field(default_factory=dict)

    def function(self, **constants):
        """The kernel, in CUDA compiled with `constants`; the function in Triton and Python."""
        document, key = registry.documents()[self.exercise], tuple(sorted(constants.items()))
        if document.language != "cuda":
            key = ()
        if key not in self._compiled:
            text = self.path.read_text(encoding="utf-8")
            if document.language == "cuda":
                self._compiled[key] = cuda.compile(text, document.entry, defines=constants)
            else:
                name = f"{self.exercise} {self.path.name}"
                self._compiled[key] = getattr(loading.load(text, name), document.entry)
        return self._compiled[key]

    def run(self, grid, arguments, outputs, *, block=0, shared_bytes=0, **constants):
        """Launch it; returns `outputs`."""
        language = registry.documents()[self.exercise].language
        function, given = self.function(**constants), {} if language == "cuda" else constants
        Launch(language, function, grid, block, tuple(arguments), given, outputs, shared_bytes).run()
        return outputs


def newest(exercise):
    """The Answer of an exercise, or None where none has passed."""
    files = [*(work.root() / "answers" / exercise).glob("*.*")]
    return Answer(exercise, max(files, key=lambda path: path.stat().st_mtime_ns)) if files else None


def matmul(answer, config, x, weight, bias=None):
    """04.4: halves; the weight is kept transposed beside, as for the course's kernels."""
    if x.dtype != torch.float16:
        return NotImplemented
    (size_m, size_k), size_n = x.shape, len(weight)
    out = x.new_empty(size_m, size_n)
    grid = (ceil_div(size_m, BLOCK_M) * ceil_div(size_n, BLOCK_N),)
    arguments = (x.contiguous(), transposed(weight), out, size_m, size_n, size_k)
    tiles = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_K": BLOCK_K, "GROUP_M": 4}
    answer.run(grid, arguments, (out,), **tiles)
    return out if bias is None else out.add_(bias)


def _causal(answer, q, k, v, num_states):
    """06.4 and 07.3: float32; the former keeps `num_states` more tensors (batch_size, num_heads, seq_len)."""
    if q.dtype != torch.float32:
        return NotImplemented
    q, k, v = (x.contiguous() for x in (q, k, v))
    batch_size, num_heads, seq_len, head_dim = q.shape
    out, states = torch.empty_like(q), [q.new_empty(q.shape[:3]) for _ in range(num_states + 1)]
    sizes = (num_heads // k.shape[1], seq_len, k.shape[2], head_dim**-0.5)
    tiles = {"HEAD_DIM": head_dim, "BLOCK_D": power_of_two(head_dim), "BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}
    grid = (num_heads, batch_size) if num_states else (ceil_div(seq_len, BLOCK_M), num_heads, batch_size)
    answer.run(grid, (q, k, v, out, *states, *sizes), (out,), **tiles)
    return out


def attention_1(answer, config, q, k, v):
    """06.4, K and V outside."""
    return _causal(answer, q, k, v, num_states=2)


def attention_2(answer, config, q, k, v):
    """07.3, Q outside."""
    return _causal(answer, q, k, v, num_states=0)


def grouped_decode(answer, config, q, k, v, seq_lens, longest):
    """09.6: halves; it wants the heads before the tokens, so the first `longest` slots of the cache are copied."""
    group, head_dim = config.num_heads // config.num_kv_heads, config.head_dim
    if q.dtype != torch.float16 or group > ROWS or head_dim < 16 or head_dim & (head_dim - 1):
        return NotImplemented
    k, v = (x[:, :longest].transpose(1, 2).contiguous() for x in (k, v))
    out, lse = q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)
    arguments = (q.contiguous(), k, v, seq_lens, out, lse, group, k.shape[2], head_dim**-0.5)
    grid = (config.num_kv_heads, len(q))
    answer.run(grid, arguments, (out,), HEAD_DIM=head_dim, ROWS=ROWS, BLOCK_N=BLOCK_N)
    return out


def paged_decode(answer, config, q, k, v, seq_lens, longest):
    """10.4: float32; pages of 16 slots where they divide the cache's rows, else of the largest power of two that does.

    The cache is the pool of pages as it is: the table of a row names its own pages in order.
    """
    if q.dtype != torch.float32:
        return NotImplemented
    (batch_size, capacity), head_dim = k.shape[:2], config.head_dim
    page_size = math.gcd(capacity, 16)
    pages = torch.arange(capacity // page_size, device=q.device, dtype=torch.int32)
    row_stride = k.stride(0) // (k.stride(1) * page_size)  # 0 where several queries look at one row
    table = torch.arange(batch_size, device=q.device, dtype=torch.int32)[:, None] * row_stride + pages
    out, lse = q.new_empty(q.shape), q.new_empty(q.shape[:2])
    sizes = (config.num_heads // config.num_kv_heads, len(pages), page_size * k.stride(1), k.stride(1), k.stride(2))
    arguments = (q.contiguous(), k, v, table, seq_lens, out, lse, *sizes, head_dim**-0.5)
    answer.run((config.num_heads, batch_size), arguments, (out,), HEAD_DIM=head_dim, PAGE_SIZE=page_size)
    return out


def add_rms_norm(answer, config, x, residual, weight, eps):
    """12.1: halves, rows of at most 20,000."""
    if x.dtype != torch.float16 or x.shape[1] > MAX_COLUMNS:
        return NotImplemented
    x, residual, out = x.contiguous(), residual.contiguous(), torch.empty_like(x)
    num_rows, num_cols = x.shape
    arguments = (x, residual, weight, out, num_cols, num_cols, num_cols, num_cols, float(eps))
    sizes = {"block": BLOCK, "shared_bytes": 4 * ceil_div(num_cols, 2)}
    return answer.run((num_rows,), arguments, (out, residual), BLOCK=BLOCK, **sizes)


def rope(answer, config, q, k, positions, cos_sin):
    """12.2: float32, up to position 4,095; q and k are turned where they lie, one launch each."""
    if q.dtype != torch.float32 or len(cos_sin) > 4096 or config.head_dim > 256:
        return NotImplemented
    positions, head_dim = positions.int(), config.head_dim
    for x in (q, k):
        sizes = (x.stride(0), x.stride(1), head_dim, head_dim, math.log2(config.rope_theta))
        pairs = {"INTERLEAVED": False, "BLOCK_PAIRS": power_of_two(head_dim // 2, least=1)}
        answer.run((x.shape[1], x.shape[0]), (x, positions, *sizes), (x,), **pairs)
    return q, k


def sample(answer, config, logits, temperature, noise, top_k=None, top_p=None, min_p=None, out=None):
    """12.4: temperature and top-p; noise up to 0.999, which the contract promises, is all but one draw in 1,000."""
    if top_k is not None or min_p is not None:
        return NotImplemented
    top_p = torch.ones_like(temperature) if top_p is None else top_p
    tokens = answer.function()(logits.float(), temperature, top_p, noise.clamp(max=0.999))
    return tokens if out is None else out.copy_(tokens)


def greedy(answer, config, logits, out=None):
    """12.4 at temperature 0."""
    zeros = torch.zeros(len(logits), device=logits.device)
    tokens = answer.function()(logits.float(), zeros, torch.ones_like(zeros), zeros)
    return tokens if out is None else out.copy_(tokens)


def cross_entropy(answer, config, logits, targets):
    """12.3: the loss; the logits, which it turns into the gradient, are a copy."""
    copy = logits.float().clone()
    loss = copy.new_empty(len(copy))
    arguments = (copy, targets, loss, copy.shape[1], copy.stride(0), -100, 1.0)
    return answer.run((len(copy),), arguments, (loss,), BLOCK_N=1024)[0].mean()


# operation: (exercise, function), the first that passed and takes the arguments runs
ADAPTERS = {
    "linear": (("04.4", matmul),),
    "attention": (("07.3", attention_2), ("06.4", attention_1)),
    "decode": (("09.6", grouped_decode), ("10.4", paged_decode)),
    "add_rms_norm": (("12.1", add_rms_norm),),
    "rope": (("12.2", rope),),
    "sample": (("12.4", sample),),
    "greedy": (("12.4", greedy),),
    "cross_entropy": (("12.3", cross_entropy),),
}
