"""RMSNorm and LayerNorm by their definitions in float64, and their gradients. Written to be read, not to be fast.

May import: torch.
"""

import torch


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, float64."""
    x = x.double()
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()


def layer_norm(x, weight, bias, eps):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, float64; bias may be None."""
    x = x.double()
    centred = x - x.mean(-1, keepdim=True)
    out = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) * weight.double()
    return out if bias is None else out + bias.double()


def add_rms_norm(x, residual, weight, eps):
    """(out, residual): residual + x rounded to the dtype of the residual, and `rms_norm` of it in float64."""
    residual = (residual.double() + x.double()).to(residual.dtype)
    return rms_norm(residual, weight, eps), residual


def rms_norm_backward(d_out, x, weight, eps):
    """(dx, d_weight) in float64 for the gradient of the output of `rms_norm`."""
    x, d_out = x.double(), d_out.double()
    rstd = 1.0 / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)
    normalised, gradient = x * rstd, d_out * weight.double()
    dx = rstd * (gradient - normalised * (gradient * normalised).mean(-1, keepdim=True))
    return dx, (d_out * normalised).reshape(-1, x.shape[-1]).sum(0)


def layer_norm_backward(d_out, x, weight, eps):
    """(dx, d_weight, d_bias) in float64 for the gradient of the output of `layer_norm`."""
    x, d_out = x.double(), d_out.double()
    centred = x - x.mean(-1, keepdim=True)
    rstd = 1.0 / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)
    normalised, gradient = centred * rstd, d_out * weight.double()
    slope = (gradient * normalised).mean(-1, keepdim=True)
    dx = rstd * (gradient - gradient.mean(-1, keepdim=True) - normalised * slope)
    flat = (-1, x.shape[-1])
    return dx, (d_out * normalised).reshape(flat).sum(0), d_out.reshape(flat).sum(0)
