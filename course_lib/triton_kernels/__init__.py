"""Triton twins of kernels_cu/: one module a family, one function a step, found by the stem they share.

May import: triton (when a family is loaded). Nothing of the course: a twin reads like the .cu file beside it.
"""

from importlib import import_module

# stem of kernels_cu/ -> name of the Triton function in the family's module; "module.function" where a step has its own
REGISTRY = {
    "vector/01_add": "add_kernel",
    "vector/02_tail": "add_tail_kernel",
    "reduction/01_shared_tree": "row_sum_kernel",  # one twin for three steps: Triton's compiler chooses among them
    "reduction/02_warp_shuffle": "row_sum_kernel",
    "reduction/03_warp_rows": "row_sum_kernel",
    "row_softmax/01_unfused/row_max": "row_max_kernel",  # a step of three launches: a twin for each
    "row_softmax/01_unfused/row_exp_sum": "row_exp_sum_kernel",
    "row_softmax/01_unfused/row_divide": "row_divide_kernel",
    "row_softmax/02_fused": "fused_softmax_kernel",
    "softmax/01_three_pass": "three_pass_softmax_kernel",
    "softmax/02_online": "online_softmax_kernel",
    "softmax/03_online_warp": "online_softmax_tile_kernel",
    "softmax/04_log_sum_exp": "log_sum_exp_kernel",
    "softmax/05_masked": "masked_softmax_kernel",
    "matmul/08_pipelined": "matmul_kernel",
    "attention/01_naive/scores": "scores_kernel",
    "attention/01_naive/scale": "scale_kernel",
    "attention/01_naive/mask": "mask_kernel",
    "attention/01_naive/softmax": "softmax_kernel",
    "attention/01_naive/weighted_sum": "weighted_sum_kernel",
    "attention/02_fused_softmax": "scale_mask_softmax_kernel",
    "attention/04_fused_softmax_warp": "scale_mask_softmax_tile_kernel",
    "attention/05_grouped_query": "grouped_attention_kernel",
    "attention/06_flash_attention_1": "flash_attention_1.flash_attention_1_kernel",
    "attention/08_flash_attention_1_backward/row_dot": "flash_attention_1.row_dot_kernel",
    "attention/08_flash_attention_1_backward/backward": "flash_attention_1.flash_attention_1_backward_kernel",
    "flash_attention_2/01_loop_order": "forward_kernel",
    "flash_attention_2/10_heavy_first": "tuned_forward_kernel",
    "flash_attention_2_backward/01_two_walks/row_dot": "flash_attention_2_backward.row_dot_kernel",
    "flash_attention_2_backward/01_two_walks/dk_dv": "flash_attention_2_backward.dk_dv_kernel",
    "flash_attention_2_backward/01_two_walks/dq": "flash_attention_2_backward.dq_kernel",
    "decode/01_single_pass": "single_pass_kernel",
    "decode/02_split_kv/split": "split_kv_kernel",
    "decode/02_split_kv/combine": "combine_kernel",
    "decode/03_fused_combine": "fused_combine_kernel",
    "decode/04_grouped_heads": "grouped_heads_kernel",
    "paged/01_reshape_and_cache": "reshape_and_cache_kernel",
    "paged/02_paged_v1": "paged_v1_kernel",
    "paged/03_paged_v2/partition": "paged_v2_kernel",
    "paged/03_paged_v2/reduce": "reduce_kernel",
    "paged/04_paged_grouped/partition": "paged_grouped_kernel",
    "paged/04_paged_grouped/reduce": "reduce_kernel",
    "paged/05_paged_prefill": "paged_prefill.paged_prefill_kernel",
    "paged/06_quantised_kv/partition": "paged_quantised.quantised_kv_kernel",
    "paged/06_quantised_kv/reduce": "reduce_kernel",
    "paged/07_copy_pages": "copy_pages_kernel",
    "paged/08_quantised_write": "paged_quantised.quantised_write_kernel",
}


def load(stem):
    """The Triton function that carries `stem`, e.g. ``load("softmax/02_online")``.

    Raises
    ------
    KeyError  no twin carries this stem; the message names those that exist
    """
    if stem not in REGISTRY:
        raise KeyError(f"no Triton twin is called {stem!r}; these exist: {', '.join(REGISTRY)}")
    module, _, function = REGISTRY[stem].rpartition(".")
    return getattr(import_module(f"{__name__}.{module or stem.split('/')[0]}"), function)
