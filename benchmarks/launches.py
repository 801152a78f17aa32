"""One small, ragged launch of every step of the course: what the sanitizer watches and both engines are held to.

    python3 -m benchmarks.launches [--language cuda]      launches everything once where the course runs, and says what

A step is a `.cu` file or a Triton twin. tests/unit/test_launches.py fails when a file has no launch here.
"""

import argparse
from functools import partial

import torch

from benchmarks.inputs import direct, heads, random
from course_lib.cuda.steps import step
from course_lib.ops import (
    attention,
    decode,
    decode_exercises,
    first_kernels,
    flash_attention_1,
    flash_attention_1_backward,
    flash_attention_2,
    fragments,
    matmul,
    matmul_exercises,
    movement,
    paged,
    paged_exercises,
    paged_prefill,
    paged_quantised,
    softmax,
)
from course_lib.reference.quantised_kv import quantise

LANGUAGES = ("cuda", "triton")


def _counted(device):
    """The micro-kernels of access/, as counter_cases.py launches them: the first case of each file."""
    from benchmarks.counters.counter_cases import CASES, Case

    found = {}
    for case in CASES:
        if isinstance(case, Case) and case.path.startswith("access/"):
            make = partial(direct, device, case.path, case.kernel, case.grid, case.block, case.make, case.defines)
            found.setdefault((case.path.removesuffix(".cu"), "cuda"), make)
    return found


def _ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


def _chain():
    """(next, out, number of steps) of a pointer chase through 64 places."""
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    after = torch.empty(64, dtype=torch.int32)
    after[order] = order.roll(-1).to(torch.int32)
    return after, torch.zeros(2, dtype=torch.int64), 64


def _bare(device):
    """Steps that have no launcher."""
    places = torch.arange(32, dtype=torch.int32) * 3
    words = torch.arange(2048, dtype=torch.float32)
    rows = torch.randn(7, 100, generator=torch.Generator().manual_seed(0))
    cases = {
        "access/10_global_read": ("global_read_kernel", 1, 32, lambda: (words, places, torch.zeros(32)), {}),
        "access/11_shared_read": ("shared_read_places_kernel", 1, 32, lambda: (words, places, torch.zeros(32)), {}),
        "bandwidth/01_shared_read": (
            "shared_read_kernel", 2, 64, lambda: (words[:1024].clone(), torch.zeros(128)), {"STRIDE": 3, "REPEATS": 8},
        ),
        "bandwidth/02_pointer_chase": ("pointer_chase_kernel", 1, 1, _chain, {}),
        "vector/00_who": ("who_kernel", 3, 40, lambda: (_ints(120), _ints(120), _ints(120)), {}),
        "reduction/00_tree_steps": (
            "tree_steps_kernel", 1, 8, lambda: (torch.arange(8.0), torch.zeros(4, 8)), {"BLOCK": 8},
        ),
        "reduction/04_rows_in_turn": (
            "centre_rows_kernel", 3, 64, lambda: (rows, torch.zeros(7, 100), 7, 100), {"BLOCK": 64},
        ),
    }  # fmt: skip
    return {
        (stem, "cuda"): partial(direct, device, f"{stem}.cu", kernel, grid, block, make, defines)
        for stem, (kernel, grid, block, make, defines) in cases.items()
    }


def _first_kernels(device):
    found = {}
    for language in LANGUAGES:
        for variant, length in (("01_add", 256), ("02_tail", 301)):
            x, y = random(device, length), random(device, length, seed=1)
            plan = partial(first_kernels.plan_add, x, y, variant=variant, language=language)
            found[f"vector/{variant}", language] = plan
        x = random(device, 5, 133)
        for variant in ("01_shared_tree", "02_warp_shuffle", "03_warp_rows"):
            plan = partial(first_kernels.plan_row_sum, x, variant=variant, language=language)
            found[f"reduction/{variant}", language] = plan
        for variant in ("01_unfused", "02_fused"):
            plan = partial(first_kernels.plan_row_softmax, x, variant=variant, language=language)
            found[f"row_softmax/{variant}", language] = plan
    for variant in movement.VARIANTS:
        found[variant, "cuda"] = partial(movement.plan, random(device, 37, 53), variant=variant)
    return found


def _softmax(device):
    found, x = {}, random(device, 5, 133)
    lengths = torch.tensor([53, 20], dtype=torch.int32, device=device)
    for language in LANGUAGES:
        for variant in softmax.VARIANTS:
            if variant == "05_masked":
                inputs = (random(device, 2, 37, 53), lengths)
            else:
                inputs = (x.half() if variant == "04_log_sum_exp" else x,)
            found[f"softmax/{variant}", language] = partial(softmax.plan, *inputs, variant=variant, language=language)
    return found


def _attention(device):
    found, small = {}, heads(device, head_dim=24)
    plain = heads(device, head_dim=24, num_kv_heads=4)
    for variant in attention.VARIANTS:
        for language in LANGUAGES:
            if variant == "03_row_in_block":
                if language == "cuda":
                    found[f"attention/{variant}", language] = partial(attention.plan, *plain, variant=variant)
                continue
            found[f"attention/{variant}", language] = partial(
                attention.plan, *small, causal=True, variant=variant, language=language
            )
    return found


def _flash_attention_1(device):
    small = heads(device, head_dim=24)
    plan = partial(flash_attention_1.plan, *small)
    found = {("attention/06_flash_attention_1", language): partial(plan, causal=True, language=language)
             for language in LANGUAGES}  # fmt: skip
    found["attention/07_flash_attention_1_rows", "cuda"] = partial(plan, variant="07_flash_attention_1_rows")

    def backward(language):
        out, lse = flash_attention_1.flash_attention_1(*small, causal=True)
        d_out = random(device, *out.shape, seed=3)
        return flash_attention_1_backward.plan(*small, out, lse, d_out, causal=True, language=language)

    return found | {(flash_attention_1_backward.STEM, language): partial(backward, language) for language in LANGUAGES}


def _warp_tile():
    """(arguments of 01_warp_tile), 37 queries and 53 keys, two heads that share one of k and v."""
    q, k, v = heads("cpu", torch.float16)
    return q, k, v, torch.zeros_like(q), torch.zeros(q.shape[:3]), 2, 37, 53, 0.125


def _flash_attention_2(device):
    small, halves = heads(device, head_dim=24), heads(device, torch.float16)
    stem = "flash_attention_2_warp/01_warp_tile"
    entry = (f"{stem}.cu", "flash_attention_2_kernel", (3, 4, 1), 32)
    found = {(stem, "cuda"): partial(direct, device, *entry, _warp_tile)}
    for variant in flash_attention_2.VARIANTS:
        inputs = small if variant == "01_loop_order" else halves
        for language in step(f"flash_attention_2/{variant}").languages:
            plan = partial(flash_attention_2.plan, *inputs, causal=True, variant=variant, language=language)
            found[f"flash_attention_2/{variant}", language] = plan

    def backward(language):
        from course_lib.ops.flash_attention_2 import _triton as triton_launches

        inputs = small if language == "cuda" else heads(device)
        out, lse = flash_attention_1.flash_attention_1(*inputs, causal=True)
        d_out = random(device, *out.shape, seed=3)
        if language == "cuda":
            return flash_attention_2.plan_backward(*inputs, out, lse, d_out, causal=True)
        scale = out.shape[3] ** -0.5
        return triton_launches.plan_backward(*inputs, out, lse, d_out, causal=True, softmax_scale=scale)

    return found | {(flash_attention_2.STEM_BACKWARD, language): partial(backward, language) for language in LANGUAGES}


def _matmul(device):
    found = {}
    for variant in matmul.VARIANTS:
        dtype = torch.float32 if variant[:2] < "06" else torch.float16
        size_n = 53 if variant[:2] < "08" else 56
        a, b = random(device, 37, 40, dtype=dtype), random(device, 40, size_n, dtype=dtype, seed=1)
        found[f"matmul/{variant}", "cuda"] = partial(matmul.plan_matmul, a, b, variant=variant)
    small = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}  # several tiles, and nothing for autotune to time
    twin = partial(matmul.plan_matmul, a, b, language="triton", tiles=small)
    found |= {("matmul/08_pipelined", "triton"): twin}
    b_rows, half_a, half_b = (
        random(device, 45, 40),
        random(device, 32, 48).half(),
        random(device, 48, 24, seed=1).half(),
    )
    a, b = random(device, 37, 40), random(device, 40, 53, seed=1)
    for variant, pair in zip(matmul_exercises.VARIANTS, ((a, b), (a, b_rows), (half_a, half_b)), strict=True):
        found[f"matmul_exercises/{variant}", "cuda"] = partial(matmul_exercises.plan, *pair, variant=variant)
    return found | {("access/12_fragments", "cuda"): partial(fragments.plan, device)}


def paged_cache(device, seq_lens=(0, 17, 40), page_size=3, head_dim=64):
    """(q, k_pages, v_pages, block_table, seq_lens): four heads on two of keys; pages in no order, unused slots NaN."""
    needed = [-(-length // page_size) for length in seq_lens]
    order = torch.randperm(sum(needed) + 2, generator=torch.Generator().manual_seed(0)).to(torch.int32)
    table = torch.full((len(seq_lens), max(needed) + 1), -1, dtype=torch.int32)
    pools = [random("cpu", len(order), page_size, 2, head_dim, dtype=torch.float16, seed=seed) for seed in (1, 2)]
    for b, pages in enumerate(order[: sum(needed)].split(needed)):
        table[b, : len(pages)] = pages
        for pool in pools if len(pages) else ():
            pool[pages[-1], (seq_lens[b] - 1) % page_size + 1 :] = torch.nan
    for pool in pools:
        pool[order[sum(needed) :].long()] = torch.nan
    q = random("cpu", len(seq_lens), 4, head_dim, dtype=torch.float16)
    lengths = torch.tensor(seq_lens, dtype=torch.int32)
    return tuple(x.to(device) for x in (q, *pools, table, lengths))


def _paged(device):
    cache = paged_cache(device)
    found = {
        (f"paged/{variant}", language): partial(paged.plan, *cache, variant=variant, language=language, split_len=16)
        for variant in paged.DECODE_VARIANTS
        for language in LANGUAGES
    }
    new = random(device, 5, 2, 64, dtype=torch.float16, seed=3), random(device, 5, 2, 64, dtype=torch.float16, seed=4)
    slots = torch.tensor([7, -1, 0, 5, 2], device=device)
    store = partial(paged.plan_reshape_and_cache, *new, *(pool.clone() for pool in cache[1:3]), slots)
    found |= {("paged/01_reshape_and_cache", language): partial(store, language=language) for language in LANGUAGES}
    copies = torch.tensor([[0, 4], [2, 1]], device=device)
    copy = partial(paged.plan_copy_pages, *(x.clone() for x in cache[1:3]), copies)
    pairs = [quantise(pool.cpu(), torch.int8, per="head") for pool in cache[1:3]]
    small = [x.to(device) for of_both in zip(*pairs, strict=True) for x in of_both]
    quantised = partial(paged_quantised.plan, cache[0], *small, *cache[3:], split_len=16)
    own = [x.clone(memory_format=torch.contiguous_format) for x in small]
    write = partial(paged_quantised.plan_write, *new, *own, slots)
    starts = torch.tensor([0, 0, 3, 43], dtype=torch.int32, device=device)  # no new token, the last three, all forty
    new = random(device, 43, 4, 64, dtype=torch.float16, seed=5)
    prefill = partial(paged_prefill.plan, new, *cache[1:], starts, max_seq_len_q=40)
    found |= {("paged/09_tuned_prefill", language): partial(prefill, language=language) for language in LANGUAGES}
    prefill = partial(prefill, variant="05_paged_prefill")
    steps = ("05_paged_prefill", prefill), ("06_quantised_kv", quantised), ("07_copy_pages", copy)
    for name, plan in (*steps, ("08_quantised_write", write)):
        found |= {(f"paged/{name}", language): partial(plan, language=language) for language in LANGUAGES}
    return found


def _decode(device):
    """Four heads on two of keys, three sequences of 53 places: one empty, one short, one in several splits."""
    q = random(device, 3, 4, 64, dtype=torch.float16)
    k, v = (random(device, 3, 2, 53, 64, dtype=torch.float16, seed=seed) for seed in (1, 2))
    lengths = torch.tensor([0, 17, 40], dtype=torch.int32, device=device)
    for b, length in enumerate((0, 17, 40)):
        k[b, :, length:] = v[b, :, length:] = torch.nan
    return {
        (f"decode/{variant}", language): partial(
            decode.plan, q, k, v, lengths, variant=variant, language=language, num_splits=4
        )
        for variant in decode.VARIANTS
        for language in LANGUAGES
    }


def _decode_exercises(device):
    """37 of 50 keys in splits of 16, four heads on two of keys; and 40 splits of three rows, a third of them empty."""
    q = random(device, 2, 4, 64, dtype=torch.float16)
    k, v = (random(device, 2, 2, 50, 64, dtype=torch.float16, seed=seed) for seed in (1, 2))
    k[:, :, 37:] = v[:, :, 37:] = torch.nan
    partial_out, partial_lse = random(device, 40, 3, 128), random(device, 40, 3, seed=1)
    partial_lse[::3], partial_out[::3] = -torch.inf, torch.nan
    split = partial(decode_exercises.plan_split, q, k, v, seq_len_kv=37, split_len=16)
    combine = partial(decode_exercises.plan_combine, partial_out, partial_lse)
    return {(f"decode_exercises/{name}", "cuda"): plan for name, plan in (("01_split", split), ("02_combine", combine))}


def _paged_exercises(device):
    """The cache of `paged_cache` in float with 32 columns; five new tokens, one of which is not stored."""
    q, k_pages, v_pages, *rest = (x.float() if x.dtype == torch.float16 else x for x in paged_cache(device))
    walk = (q[..., :32], k_pages[..., :32], v_pages[..., :32])
    fused = torch.arange(5 * 5 * 40, dtype=torch.int32, device=device).reshape(5, 5, 40)
    pools = [torch.zeros(3, 4, 2, 40, dtype=torch.int32, device=device) for _ in range(2)]
    slots = torch.tensor([7, -1, 0, 5, 2], device=device)
    small = (torch.zeros(3, 4, 2, 32, dtype=torch.int8, device=device), torch.zeros(3, 4, 2, device=device))
    plans = {
        "02_slot_mapping": partial(paged_exercises.plan_slot_mapping, fused[:, 1:3], fused[:, 3:5], *pools, slots),
        "03_warp_walk": partial(paged_exercises.plan_warp_walk, *(x.contiguous() for x in walk), *rest),
        "07_quantise": partial(paged_exercises.plan_quantise, random(device, 5, 2, 32, seed=6), *small, slots),
    }
    return {(f"paged_exercises/{name}", "cuda"): plan for name, plan in plans.items()}


def launches(device):
    """Every small launch.

    Parameters
    ----------
    device : "cuda" or "cpu", where the tensors lie

    Returns
    -------
    dict, (stem, "cuda" or "triton") -> function without arguments that gives the Launch or Launches, not yet run
    """
    rooms = (
        _counted,
        _bare,
        _first_kernels,
        _softmax,
        _attention,
        _flash_attention_1,
        _flash_attention_2,
        _matmul,
        _paged,
        _paged_exercises,
        _decode,
        _decode_exercises,
    )
    found = {}
    for room in rooms:
        found |= room(device)
    return found


def main():
    """Launch everything once."""
    from course_lib.device import engine

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--language", choices=("all", *LANGUAGES), default="all")
    wanted = parser.parse_args().language

    device = "cuda" if engine() == "gpu" else "cpu"
    found = {name: make for name, make in launches(device).items() if wanted in ("all", name[1])}
    for make in found.values():
        make().run()
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{len(found)} launches on {device}")


if __name__ == "__main__":
    main()
