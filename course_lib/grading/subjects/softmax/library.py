"""torch's own softmax in all its forms, by the operators that they end in: off in exercises that build one."""

LIBRARY_ATTENTION = (
    "aten.*attention*",
    "aten.*multi_head*",
    "aten._transformer_encoder*",
    "aten._safe_softmax",
    "torch.nn.functional.multi_head_attention_forward",  # ends in plain products and a softmax
)
LIBRARY_SOFTMAX = ("aten.*softmax*", "aten.*sumexp*", *LIBRARY_ATTENTION)
