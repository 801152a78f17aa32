"""Tanh-GELU, SiLU and the gated product by their definitions in float64, and their gradients.

May import: torch.
"""

import math

import torch


def gelu_tanh(x):
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), float64."""
    x = x.double()
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    """x / (1 + exp(-x)), float64."""
    x = x.double()
    return x / (1.0 + torch.exp(-x))


GATES = {"silu": silu, "gelu_tanh": gelu_tanh}


def gelu_tanh_slope(x):
    """The derivative of `gelu_tanh`, float64."""
    x = x.double()
    scale = math.sqrt(2.0 / math.pi)
    t = torch.tanh(scale * (x + 0.044715 * x**3))
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * scale * (1.0 + 3 * 0.044715 * x * x)


def silu_slope(x):
    """The derivative of `silu`, float64."""
    x = x.double()
    s = 1.0 / (1.0 + torch.exp(-x))
    return s * (1.0 + x * (1.0 - s))


SLOPES = {"silu": silu_slope, "gelu_tanh": gelu_tanh_slope}


def swiglu(gate, up, activation="silu"):
    """activation(gate) * up, float64."""
    return GATES[activation](gate) * up.double()


def gelu_tanh_backward(d_out, x):
    """The gradient of `gelu_tanh` with respect to x, float64."""
    return d_out.double() * gelu_tanh_slope(x)


def swiglu_backward(d_out, gate, up, activation="silu"):
    """(d_gate, d_up) of `swiglu`, float64."""
    d_out = d_out.double()
    return d_out * up.double() * SLOPES[activation](gate), d_out * GATES[activation](gate)
