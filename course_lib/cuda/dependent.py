"""Launches that may begin before the kernel in front of them has ended: programmatic dependent launch.

A kernel that calls ``griddepcontrol_wait()`` is always launched so (kernels_cu/common/dependent_launch.cuh says what it
may do before); one that calls it where the macro DEPENDENT is 1 needs that define for it. A stream that is being
captured keeps it: the edge in the CUDA graph is a programmatic one.

May import: nothing of the course.
"""

import ctypes
import functools

_PROGRAMMATIC_STREAM_SERIALIZATION = 6  # of CUlaunchAttributeID


class _Attribute(ctypes.Structure):  # CUlaunchAttribute: its value is a union of 64 bytes
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [
        ("sizes", ctypes.c_uint * 7),  # grid, block, bytes of dynamic shared memory
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("num_attributes", ctypes.c_uint),
    ]


def is_dependent(source, defines=None):
    """Whether a kernel of this text is launched as a dependent of the one in front of it.

    defines : dict of macro name to text, or None
    """
    if "griddepcontrol_wait()" not in source:
        return False
    return "DEPENDENT" not in source or str((defines or {}).get("DEPENDENT", 0)) == "1"


def launch_kernel(function, *numbers):
    """Launch as `cupy.cuda.driver.launchKernel` does, as a dependent.

    Parameters
    ----------
    function : int, the CUfunction
    numbers : ints: grid x, y, z, block x, y, z, bytes of dynamic shared memory, stream, address of the array of the
        arguments' addresses, 0

    Raises
    ------
    RuntimeError  with the name of the driver's error
    """
    *sizes, stream, parameters, _ = numbers
    attribute = _Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)
    config = _Config((ctypes.c_uint * 7)(*sizes), stream, ctypes.pointer(attribute), 1)
    driver = _driver()
    status = driver.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), ctypes.c_void_p(parameters), None)
    if status:
        name = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(name))
        raise RuntimeError(f"{(name.value or b'').decode()}: error {status} of cuLaunchKernelEx")


def launch(function, grid, block, packed, shared_bytes, stream):
    """The same for arguments that are numpy scalars."""
    buffers = [ctypes.create_string_buffer(value.tobytes(), value.nbytes) for value in packed]
    array = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    launch_kernel(function, *grid, *block, shared_bytes, stream, ctypes.addressof(array), 0)


@functools.cache
def _driver():
    return ctypes.CDLL("libcuda.so.1")
