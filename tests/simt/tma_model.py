"""What a box of a tensor looks like in shared memory, in numpy: rows one after the other, zeros outside, swizzled."""

import itertools

import numpy

SWIZZLE_BYTES = {None: 16, "32B": 32, "64B": 64, "128B": 128}


def box_of(array, box, coordinates):
    """Return the box as an array of shape `box`; `coordinates` of its first element, outermost first. Zeros outside."""
    result = numpy.zeros(box, array.dtype)
    for index in itertools.product(*map(range, box)):
        at = tuple(first + i for first, i in zip(coordinates, index, strict=True))
        if all(0 <= i < size for i, size in zip(at, array.shape, strict=True)):
            result[index] = array[at]
    return result


def swizzled(tile_bytes, swizzle):
    """Return the bytes as they lie in shared memory: 16-byte chunk c of row r of 128 bytes is at chunk c ^ (r % 8)."""
    mask = SWIZZLE_BYTES[swizzle] // 16 - 1
    chunks = numpy.frombuffer(tile_bytes, numpy.uint8).reshape(-1, 16)
    result = numpy.empty_like(chunks)
    for number, chunk in enumerate(chunks):
        result[number ^ (number // 8 & mask)] = chunk
    return result.tobytes()
