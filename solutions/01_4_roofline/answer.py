import torch


def roofline(flops, num_bytes, peak_tflops, memory_gbps):
    """FLOP per byte, attainable TFLOP/s, least microseconds; flops, num_bytes: tensors of one shape."""
    ### BEGIN SOLUTION
    intensity = flops / num_bytes  # FLOP per byte
    tflops = torch.clamp(intensity * memory_gbps / 1000, max=peak_tflops)  # the lower of the two roofs
    least_us = torch.maximum(flops / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3)  # the slower resource
    ### END SOLUTION
    return intensity, tflops, least_us
