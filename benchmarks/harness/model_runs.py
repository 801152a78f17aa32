"""How a run of a model is timed, and how its tokens compare.

May import: torch.
"""

import statistics
import time

import torch


@torch.no_grad()
def without_cache(model, prompts, count):
    """Tokens by running the whole text again for each of them."""
    ids = torch.tensor(prompts, device=model.device)
    for _ in range(count):
        ids = torch.cat((ids, model.kernels.greedy(model.forward(ids, last=True)[:, 0])[:, None]), dim=1)
    return ids[:, len(prompts[0]) :].tolist()


def timed(run, count, runs, device, limit_s):
    """(tokens, seconds of a run of one token, seconds of a run of `count`, highest bytes), medians after warm runs.

    limit_s : float; there are fewer than `runs` where they would take longer
    """
    on_gpu = device == "cuda"

    def once(count):
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        tokens = run(count)
        if on_gpu:
            torch.cuda.synchronize()
        return tokens, time.perf_counter() - start

    runs = max(1, min(runs, int(limit_s / (once(count)[1] + once(1)[1]))))
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    whole = [once(count) for _ in range(runs)]
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    first = [once(1)[1] for _ in range(runs)]
    return whole[0][0], statistics.median(first), statistics.median(seconds for _, seconds in whole), peak


def agreement(tokens, wanted):
    """Share of the tokens before the first that differs, over all rows."""
    same = total = 0
    for row, right in zip(tokens, wanted, strict=True):
        total += min(len(row), len(right))
        pairs = enumerate(zip(row, right, strict=False))
        same += next((index for index, (a, b) in pairs if a != b), min(len(row), len(right)))
    return same / total
