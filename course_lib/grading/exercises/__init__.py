"""The exercises, one module a chapter (`chNN.py`, with a tuple EXERCISES); shared by the chapters: softmax_probes.py.

May import: spec, inputs, probes, diagnosis, reference. Never the course's own kernels.
"""
