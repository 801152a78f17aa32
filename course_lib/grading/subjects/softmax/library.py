"""torch's own softmax in all its forms: off in exercises that build one."""

LIBRARY_SOFTMAX = tuple(
    f"torch.{name}"
    for name in (
        "softmax",
        "log_softmax",
        "logsumexp",
        "Tensor.softmax",
        "Tensor.log_softmax",
        "Tensor.logsumexp",
        "nn.functional.softmax",
        "nn.functional.log_softmax",
        "nn.functional.scaled_dot_product_attention",
    )
)
