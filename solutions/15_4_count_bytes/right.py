"""Right answers to 15.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

EXPERT = """    of_token = torch.arange(len(experts)) * num_ranks // len(experts)
    of_expert = experts * num_ranks // num_experts
    return 2 * (of_expert != of_token[:, None]).sum().item() * hidden_size * itemsize
"""

LOOP = """    tokens_each, experts_each, sent = len(experts) // num_ranks, num_experts // num_ranks, 0
    for token, chosen in enumerate(experts.tolist()):
        for expert in chosen:
            if expert // experts_each != token // tokens_each:
                sent += hidden_size * itemsize
    return sent + sent
"""

ANSWERS = [
    Right("pair by pair", ((EXPERT, LOOP),)),
    Right("rank by rank", (
        ("    return num_layers * 2 * 2 * (num_ranks - 1) * num_tokens * hidden_size * itemsize\n",
         "    size = num_tokens * hidden_size * itemsize\n"
         "    return sum(2 * (num_ranks - 1) * size // num_ranks for _ in range(2 * num_layers)) * num_ranks"
         " if size % num_ranks == 0 else 4 * num_layers * (num_ranks - 1) * size\n"),
        ("    return num_layers * (num_ranks - 1) * num_tokens * 2 * num_kv_heads * head_dim * itemsize\n",
         "    block = num_tokens // num_ranks * num_kv_heads * head_dim * itemsize\n"
         "    return num_ranks * num_layers * (num_ranks - 1) * (block + block)\n"),
    )),
    Right("numbers as tensors", (
        (".sum().item() * hidden_size", ".sum() * hidden_size"),
    )),
]  # fmt: skip
