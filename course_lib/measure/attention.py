"""What attention costs by formula: operations, and bytes of global memory, step by step and in one kernel.

May import: the standard library.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionCost:
    """Forward pass, every query sees every key, as many keys as queries.

    Attributes
    ----------
    seq_len, head_dim : int
    num_heads : int, heads of all batch entries together
    itemsize : bytes of one number
    """

    seq_len: int
    head_dim: int
    num_heads: int = 1
    itemsize: int = 4

    @property
    def matrix_bytes(self):
        """The N x N matrix of scores of all heads, once."""
        return self.num_heads * self.seq_len**2 * self.itemsize

    @property
    def vector_bytes(self):
        """One of q, k, v and the result: N x d for each head."""
        return self.num_heads * self.seq_len * self.head_dim * self.itemsize

    @property
    def flop(self):
        """The two matrix products, 2 N^2 d each; the softmax is small beside them."""
        return 4 * self.num_heads * self.seq_len**2 * self.head_dim

    def steps(self):
        """{step: (bytes read, bytes written)} of four separate kernels."""
        matrix, vector = self.matrix_bytes, self.vector_bytes
        return {
            "q k^T": (2 * vector, matrix),
            "scale": (matrix, matrix),
            "softmax": (matrix, matrix),
            "weights v": (matrix + vector, vector),
        }

    @property
    def step_by_step_bytes(self):
        """What the four kernels read and write together."""
        return sum(read + written for read, written in self.steps().values())

    @property
    def fewest_bytes(self):
        """q, k and v read once, the result written once: nobody can do with less."""
        return 4 * self.vector_bytes

    def microseconds(self, num_bytes, *, peak_tflops, memory_gbps):
        """(arithmetic, memory): the least time that either would take by itself on a machine.

        Parameters
        ----------
        num_bytes : bytes that travel
        peak_tflops : 10^12 FLOP per second
        memory_gbps : 10^9 bytes per second
        """
        return self.flop / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3
