"""What the ranks of benchmarks/scaling.py run, one module a part; rank 0 reports the rows as they are made.

May import: benchmarks.harness, course_lib, torch.
"""
