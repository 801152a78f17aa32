import torch


def rotate(x, signs):
    """x (rows, head_dim), any float dtype; returns (x * signs) H / sqrt(head_dim), float32."""
    ### BEGIN SOLUTION
    y = x.float() * signs
    rows, head_dim = y.shape
    half = 1
    while half < head_dim:
        pairs = y.reshape(rows, -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        y = torch.stack([first + second, first - second], dim=2).reshape(rows, head_dim)
        half *= 2
    return y * head_dim**-0.5
    ### END SOLUTION


def block_scales(y, block_rows, clip):
    """One scale for every block_rows rows of y, float32: clip * largest magnitude / 448; a block of zeros gets 1."""
    ### BEGIN SOLUTION
    blocks = y.abs().amax(dim=1).split(block_rows)
    largest = torch.stack([rows.amax() for rows in blocks])
    scales = clip * largest / 448.0
    return torch.where(largest > 0, scales, 1.0)
    ### END SOLUTION


def quantise(y, scales, block_rows):
    """y / scale, rounded to float8_e4m3fn and saturated at +-448."""
    ### BEGIN SOLUTION
    size = y / scales.repeat_interleave(block_rows)[: len(y), None]
    return size.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    ### END SOLUTION


def dequantise(small, scales, block_rows):
    """The numbers that small and scales denote, float32."""
    ### BEGIN SOLUTION
    return small.float() * scales.repeat_interleave(block_rows)[: len(small), None]
    ### END SOLUTION


def error_bound(y, scales, block_rows):
    """For each element of y a bound on |restored - y|, float32."""
    ### BEGIN SOLUTION
    scale = scales.repeat_interleave(block_rows)[: len(y), None]
    size = (y.abs() / scale).clamp(2.0**-6, 448.0)  # below 2^-6 the steps stay 2^-9
    exponent = torch.frexp(size).exponent - 1  # size is 2^exponent times 1 to 2
    half_step = torch.exp2(exponent - 4.0)  # 3 fraction bits: a step is 2^(exponent - 3)
    return torch.maximum(half_step * scale, y.abs() - 448.0 * scale)
    ### END SOLUTION


def rounded_rows(x, signs, block_rows, clip):
    """Everything for one matrix; given."""
    y = rotate(x, signs)
    scales = block_scales(y, block_rows, clip)
    small = quantise(y, scales, block_rows)
    return y, scales, small, dequantise(small, scales, block_rows), error_bound(y, scales, block_rows)
