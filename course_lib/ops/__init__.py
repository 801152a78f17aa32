"""Launchers, one module a family: validate shapes, pick grid and shared memory, call the CUDA kernel or its Triton twin."""
