"""Rows of a table by number, and the gradient of the table, in float64; a number that names no row counts for nothing.

May import: torch.
"""

import torch


def lookup(ids, table, positions=None, position_table=None):
    """table[ids] + position_table[positions], float64; 0 for a number outside the table."""
    out = _rows(ids, table.double())
    return out if positions is None else out + _rows(positions, position_table.double())


def lookup_backward(d_out, ids, num_rows):
    """The gradient of the table, (num_rows, num_cols), float64."""
    known = (ids >= 0) & (ids < num_rows)
    gradient = torch.zeros(num_rows, d_out.shape[-1], dtype=torch.float64, device=d_out.device)
    return gradient.index_add_(0, ids[known].long(), d_out[known].double())


def _rows(ids, table):
    known = (ids >= 0) & (ids < len(table))
    return torch.where(known[..., None], table[torch.where(known, ids, 0).long()], 0.0)
