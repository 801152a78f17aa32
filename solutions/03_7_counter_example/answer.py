import torch


def counter_example():
    """A row of finite scores on which a softmax whose maximum starts at 0 is wrong. float32, (num_cols,)."""
    ### BEGIN SOLUTION
    return torch.full((8,), -200.0)  # exp(-200 - 0) is 0 in float32: nothing is left to divide
    ### END SOLUTION
