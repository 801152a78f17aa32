"""The Triton twins of the engine's kernel: a program an item of the same schedule, and a second launch that merges.

May import: errors, ops._foundation.
"""

from ...errors import UnsupportedError
from .._foundation.checks import require_language
from .._foundation.launch import Launches, triton_launch

STEM, BLOCK_ROWS = "engine/01_work_list", 128
SHAPE = {"BLOCK_N": 32, "num_warps": 8, "num_stages": 3}  # never timed; with 4 warps head_dim 128 spills on sm_80


def require_twin(language, **refused):
    """A language, and nothing beside Triton that its twin does not have; `refused`: option -> its value."""
    require_language(language)
    asked = [name for name, value in refused.items() if value]
    if language == "triton" and asked:
        raise UnsupportedError(f'the engine\'s Triton twin has no {" and no ".join(asked)}; use language="cuda".')


def plan_twins(inputs, outputs, parts, sinks, num_items, sizes, scalars, group):
    """The two launches, not yet run.

    Parameters
    ----------
    inputs : (q, k_pages, v_pages, block_table, items, token_parts)
    outputs : (out, lse)
    parts : (part_out, part_lse), scratch
    sizes : (num_heads, page_size, max_pages)
    scalars : (strides of q and of the pools, softmax_scale, causal, window_left)
    """
    q, token_parts = inputs[0], inputs[-1]
    with_sinks = (sinks if sinks is not None else parts[1]), {"HAS_SINKS": sinks is not None, "HEAD_DIM": q.shape[2]}
    arguments = (*inputs, *outputs, *parts, with_sinks[0], num_items, *sizes, *scalars)
    constants = with_sinks[1] | {"GROUP": group, "BLOCK_M": BLOCK_ROWS} | SHAPE
    first = triton_launch(STEM, (max(1, num_items),), arguments, constants, outputs, kernel="work_item_kernel")
    merged = (*parts, token_parts, *outputs, with_sinks[0])
    second = triton_launch(STEM, q.shape[:2], merged, with_sinks[1], outputs, kernel="merge_parts_kernel")
    return Launches((first, second), outputs)
