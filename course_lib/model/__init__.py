"""Language models on the course's operators; the small model that ships with the course, and its training.

- `corpus`: the text that the small model learns from, its tokenizer and its tokens
- `learning`: GPT-2 as a differentiable function, on the course's kernels or on torch's
- `train`: the training run, ``python -m course_lib.model.train``
- `card`: the files of a trained model

May import: errors, device, ops, operators, its own modules, torch, safetensors, tokenizers.
"""
