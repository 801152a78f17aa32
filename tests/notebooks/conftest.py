"""Notebooks run in kernels that start fast; it counts for nbval's notebooks as well as for test_starters.py."""

import forked_kernels

forked_kernels.install()
