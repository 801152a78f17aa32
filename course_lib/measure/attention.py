"""The cost of attention by formula: operations and bytes of global memory, in four kernels and in one.

May import: the standard library.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionCost:
    """The forward pass without a mask, with as many keys as queries.

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
        """Bytes of the N x N matrix of scores of all heads."""
        return self.num_heads * self.seq_len**2 * self.itemsize

    @property
    def vector_bytes(self):
        """Bytes of one of q, k, v and the result: N x d for each head."""
        return self.num_heads * self.seq_len * self.head_dim * self.itemsize

    @property
    def flop(self):
        """FLOP of the two matrix products, 2 N^2 d each; the softmax is negligible."""
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
        """Bytes that the four kernels read and write together."""
        return sum(read + written for read, written in self.steps().values())

    @property
    def fewest_bytes(self):
        """The lower bound of any kernel: q, k and v read once, the result written once."""
        return 4 * self.vector_bytes

    def microseconds(self, num_bytes, *, peak_tflops, memory_gbps):
        """(arithmetic, memory): the lower bound on the time that each sets by itself.

        Parameters
        ----------
        num_bytes : bytes of global memory traffic
        peak_tflops : 10^12 FLOP per second
        memory_gbps : 10^9 bytes per second
        """
        return self.flop / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3
