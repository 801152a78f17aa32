"""The operations of a model by the course's kernels: on a GPU the real ones, on a CPU the SIMT machine runs them.

Signatures as in `torch_kernels`. Where gradients are recorded the operators of `course_lib.operators` are used, which
know their backward kernels; elsewhere the launchers, which cost the host less and may work in place.

May import: operators, ops, torch.
"""

import torch
import torch.nn.functional as F
from torch.utils.weak import WeakIdKeyDictionary

from .. import operators
from ..ops import activation, flash_attention_1, norm, sampling, w4a16
from ..ops import decode as decoding
from ..ops import embedding as tables
from ..ops import rope as positions_of
from ..ops._paged_writes import reshape_and_cache
from ..ops.decode_linear import MAX_TOKENS
from ..ops.flash_attention_2 import flash_attention_2, flash_attention_lse
from ..ops.matmul import matmul

MOST_PACKED = 32  # tokens of `packed_linear` without wgmma: with more, w4a16/02_gemm is slower than a dense product
UNSPLIT = 640  # keys up to which a step of an H200 gains nothing from a second block for them, and pays for the merge
_counters = {}  # (device, rows, heads) -> zeros, which every launch of `decode` leaves as zeros
_transposed = WeakIdKeyDictionary()  # weight (out, in) -> (in, out), which the matmul kernels read


def embedding(ids, table, positions=None, position_table=None):
    """embedding/01_lookup."""
    if torch.is_grad_enabled():
        return operators.embedding(ids, table, positions, position_table)
    return tables.embedding(ids, table, positions=positions, position_table=position_table)


def layer_norm(x, weight, bias, eps):
    """norm/02_layer_norm."""
    return (operators if torch.is_grad_enabled() else norm).layer_norm(x, weight, bias, eps=eps)


def rms_norm(x, weight, eps):
    """norm/01_rms_norm."""
    return (operators if torch.is_grad_enabled() else norm).rms_norm(x, weight, eps=eps)


def add_rms_norm(x, residual, weight, eps):
    """norm/03_add_rms_norm; without gradients both x and residual are replaced."""
    return (operators if torch.is_grad_enabled() else norm).add_rms_norm(x, residual, weight, eps=eps)


def linear(x, weight, bias=None):
    """matmul/08_pipelined in half precision, 04_register_tile in float32; torch where gradients are recorded."""
    if torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    product = matmul(x.contiguous(), transposed(weight), **_matmul_step(x, weight))
    return product if bias is None else product.add_(bias)


def transposed(weight):
    """weight (out, in) as (in, out), contiguous; made once and kept as long as the weight."""
    if weight not in _transposed:
        _transposed[weight] = weight.t().contiguous()
    return _transposed[weight]


def packed_linear(x, weight, bias=None):
    """w4a16.linear; without wgmma a prompt's many tokens take the dense matrix, made for the call."""
    x, tensors = x.contiguous(), (weight.words, weight.scales, weight.zeros)
    if len(x) > MOST_PACKED and not w4a16.runs_wgmma(x, *tensors):
        return F.linear(x, weight.dense(), bias)
    product = w4a16.linear(x, *tensors)
    return product if bias is None else product.add_(bias)


def _matmul_step(x, weight):
    """Variant and language for these shapes and dtypes."""
    if x.dtype == torch.float32:
        return {"variant": "04_register_tile"}
    whole = x.dtype == torch.float16 and not any(size % 8 for size in weight.shape)
    return {"variant": "08_pipelined", "language": "cuda" if whole else "triton"}


def gelu(x):
    """activation/01_gelu_tanh; without gradients x is replaced."""
    return operators.gelu_tanh(x) if torch.is_grad_enabled() else activation.gelu_tanh(x, out=x)


def swiglu(gate_up):
    """activation/02_swiglu."""
    return (operators if torch.is_grad_enabled() else activation).swiglu(gate_up)


def rope(q, k, positions, cos_sin):
    """rope/01_rope; without gradients q and k are replaced."""
    return (operators if torch.is_grad_enabled() else positions_of).rope(q, k, positions, cos_sin)


def append(k, v, k_cache, v_cache, slots):
    """paged/01_reshape_and_cache, the cache as one page; half precision."""
    reshape_and_cache(k, v, k_cache[None], v_cache[None], slots)


def attention(q, k, v):
    """The fastest flash attention for the card; on the SIMT machine 06_flash_attention_1 or 10_heavy_first."""
    if torch.is_grad_enabled():
        return operators.flash_attention(q, k, v, causal=True)[0]
    if q.is_cuda:
        return flash_attention_lse(q, k, v, causal=True)[0]
    if q.dtype == torch.float32:
        tensors = (x.contiguous() for x in (q, k, v))
        return flash_attention_1.flash_attention_1(*tensors, causal=True)[0]
    return flash_attention_2(q, k, v, causal=True)[0]


def decode(q, k, v, seq_lens, longest):
    """decode/04_grouped_heads; half precision, head_dim 64 or 128."""
    options = {"layout": "bshd", "max_seq_len": longest, "counters": _shared_counters(q, k)}
    options["num_splits"] = 1 if longest <= UNSPLIT else None
    options["dependent"] = len(q) <= MAX_TOKENS
    return decoding.decode_attention(q, k, v, seq_lens, **options)[0]


def _shared_counters(q, k):
    """Of all layers on a GPU, which saves a launch in each; None on a CPU, where a launch that fails leaves them."""
    if not q.is_cuda:
        return None
    shape = (q.device, len(q), k.shape[2])
    if shape not in _counters:
        _counters[shape] = torch.zeros(shape[1:], dtype=torch.int32, device=q.device)
    return _counters[shape]


def sample(logits, temperature, noise, top_k=None, top_p=None, min_p=None, out=None, **counted):
    """sampling/01_pivots; counted: `counts` and `history`."""
    return sampling.sample(logits, temperature, noise, top_k=top_k, top_p=top_p, min_p=min_p, out=out, **counted)


def greedy(logits, out=None, **counted):
    """sampling/01_pivots without a temperature."""
    return sampling.sample(logits, out=out, **counted)


def cross_entropy(logits, targets):
    """cross_entropy/01_online, mean over the rows."""
    return operators.cross_entropy(logits, targets)[0].mean()
