"""What wgmma computes, written a second time: operands laid out in shared memory by chunks, registers by lanes.

Chunks of 16 bytes are permuted within a row (chunk ^ row), where the machine permutes address bits: an error in either
shows.
"""

from dataclasses import dataclass

import numpy as np
import torch

NUMPY = {"f16": np.uint16, "bf16": np.uint16, "e4m3": np.uint8}
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}
SWIZZLE_FIELD = {16: 0, 128: 1, 64: 2, 32: 3}  # bytes of the pattern (16: none) -> the descriptor's field


@dataclass
class Operand:
    """An operand in shared memory: its bytes, the strides of its descriptor, and the start of every step of K."""

    image: np.ndarray  # uint8
    leading_bytes: int
    stride_bytes: int
    steps: list


def numbers(values, kind):
    """Float array -> the nearest numbers of a format, as (their bits, their values in float64)."""
    rounded = torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(TORCH[kind])
    bits = rounded.view(torch.uint8).numpy().view(NUMPY[kind]).reshape(values.shape)
    return bits, rounded.to(torch.float64).numpy()


def _permuted(chunk, row, width):
    """Where a row's chunk is stored; the pattern is 8 rows of `width` bytes."""
    return chunk ^ {128: row % 8, 64: row // 2 % 4, 32: row // 4 % 2, 16: 0}[width]


def k_major(bits, width):
    """Lay out (rows, K) with k along the rows, in panels of `width` bytes; width 16: no swizzle, chunk by chunk."""
    data = np.ascontiguousarray(bits).view(np.uint8)
    rows, row_bytes = data.shape
    image = np.zeros(rows * row_bytes, np.uint8)
    for row in range(rows):
        for chunk in range(row_bytes // 16):
            panel, inside = chunk * 16 // width, chunk % (width // 16)
            offset = panel * rows * width + row * width + _permuted(inside, row, width) * 16
            image[offset : offset + 16] = data[row, chunk * 16 : chunk * 16 + 16]
    starts = [step * 32 // width * rows * width + step * 32 % width for step in range(row_bytes // 32)]
    if width == 16:
        starts = [step * 2 * rows * 16 for step in range(row_bytes // 32)]
    return Operand(image, rows * 16 if width == 16 else 0, 8 * width, starts)


def mn_major(bits, width):
    """Lay out (rows, K) of 16-bit numbers with k down the columns, in panels of `width` bytes of rows."""
    data = np.ascontiguousarray(bits.T).view(np.uint8)  # (K, bytes of the rows)
    num_k, span = data.shape
    image = np.zeros(-(-span // width) * width * num_k, np.uint8)
    for k in range(num_k):
        for chunk in range(span // 16):
            panel, inside = chunk * 16 // width, chunk % (width // 16)
            offset = panel * num_k * width + k * width + _permuted(inside, k, width) * 16
            image[offset : offset + 16] = data[k, chunk * 16 : chunk * 16 + 16]
    starts = [step * 16 * width for step in range(num_k // 16)]
    if width == 16:
        return Operand(image, 8 * 16, num_k * 16, starts)
    return Operand(image, num_k * width, 8 * width, starts)


def a_registers(bits):
    """The registers of a (64, K) -> (steps, 128, 4) words: of a row 32 bytes a step, four in a register."""
    words = np.ascontiguousarray(bits).view(np.uint32)
    steps = words.shape[1] // 8
    out = np.zeros((steps, 128, 4), np.uint32)
    for thread in range(128):
        row, column = 16 * (thread // 32) + thread % 32 // 4, thread % 4
        for step in range(steps):
            for i in range(4):
                out[step, thread, i] = words[row + 8 * (i % 2), 8 * step + column + 4 * (i // 2)]
    return out


def matrix(registers):
    """The accumulators of 128 threads, (128, n / 2) -> (64, n)."""
    thread, i = np.indices(registers.shape)
    out = np.zeros((64, 2 * registers.shape[1]), registers.dtype)
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
    out[row, 8 * (i // 4) + 2 * (thread % 4) + i % 2] = registers
    return out


def aligned(image):
    """Zeros to the next multiple of 1024."""
    return np.concatenate([image, np.zeros(-len(image) % 1024, np.uint8)])
