"""Launchers, one module a family: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin."""
