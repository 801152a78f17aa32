"""Right answers to 08.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HALF = """    exponent = torch.frexp(size).exponent - 1  # size is 2^exponent times 1 to 2
    half_step = torch.exp2(exponent - 4.0)  # 3 fraction bits: a step is 2^(exponent - 3)
"""
LOOP = """    y = x.float() * signs
    rows, head_dim = y.shape
    half = 1
    while half < head_dim:
        pairs = y.reshape(rows, -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        y = torch.stack([first + second, first - second], dim=2).reshape(rows, head_dim)
        half *= 2
    return y * head_dim**-0.5
"""
RECURSIVE = """    def transform(y):
        if y.shape[1] == 1:
            return y
        first, second = y.chunk(2, dim=1)
        return torch.cat([transform(first + second), transform(first - second)], dim=1) * 2**-0.5

    return transform(x.float() * signs)
"""
FACTORS = """    y, head_dim = x.float() * signs, x.shape[1]
    h, left, right = torch.ones(1, 1), 1, head_dim
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    while right > 1:
        width = min(right, 16)
        h = torch.ones(1, 1)
        while len(h) < width:
            h = torch.kron(h, two)
        y = (y.reshape(len(x), left, width, right // width).transpose(2, 3) @ h).transpose(2, 3).reshape(len(x), -1)
        left, right = left * width, right // width
    return y / head_dim**0.5
"""
SPLIT = """    blocks = y.abs().amax(dim=1).split(block_rows)
    largest = torch.stack([rows.amax() for rows in blocks])
"""
PADDED = """    missing = -len(y) % block_rows
    largest = torch.nn.functional.pad(y.abs(), (0, 0, 0, missing)).reshape(-1, block_rows * y.shape[1]).amax(dim=1)
"""
SPACING = """    e = torch.floor(torch.log2(size))
    half_step = 2.0 ** (e - 4)
"""
IN_PLACE = """    y, half = (x.float() * signs).clone(), 1
    while half < y.shape[1]:
        pairs = y.unflatten(1, (-1, 2, half))
        total = pairs.sum(dim=2)
        pairs[:, :, 1] = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] = total
        half *= 2
    return y / y.shape[1] ** 0.5
"""
PARTNERS = """    y, column, half = x.float() * signs, torch.arange(x.shape[1]), 1
    while half < x.shape[1]:
        partner = y[:, column ^ half]
        y = torch.where((column & half) == 0, y + partner, partner - y)
        half *= 2
    return y / x.shape[1] ** 0.5
"""
SCATTERED = """    block = torch.arange(len(y)) // block_rows
    largest = torch.zeros(int(block[-1]) + 1).scatter_reduce(0, block, y.abs().amax(dim=1), "amax")
"""
NEIGHBOURS = """    values = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    upper = torch.searchsorted(values, size.clamp(max=447.0).contiguous(), right=True)
    half_step = (values[upper] - values[upper - 1]) / 2
"""

ANSWERS = [
    Right("in place on a tensor of its own", ((LOOP, IN_PLACE),)),
    Right("each column and its partner", ((LOOP, PARTNERS),)),
    Right("largest magnitudes by scatter", ((SPLIT, SCATTERED),)),
    Right("the distance of the neighbours in e4m3", ((HALF, NEIGHBOURS),)),
    Right("a bound relative to the number", ((HALF, "    half_step = size * 2.0**-4\n"),)),
    Right("by the logarithm", ((HALF, SPACING),)),
    Right("by recursion", ((LOOP, RECURSIVE),)),
    Right("by factors of 16", ((LOOP, FACTORS),)),
    Right("padded blocks", ((SPLIT, PADDED),)),
    Right("a zero block's scale in another way", (
        ("    scales = clip * largest / 448.0\n    return torch.where(largest > 0, scales, 1.0)",
         "    return torch.where(largest > 0, largest, 448.0) / 448.0 * clip"),
    )),
    Right("multiplied by the inverse", (
        ("size = y / scales.repeat_interleave(block_rows)[: len(y), None]",
         "size = y * (1 / scales).repeat_interleave(block_rows)[: len(y), None]"),
    )),
]  # fmt: skip
