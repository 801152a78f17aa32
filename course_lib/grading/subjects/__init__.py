"""What several exercises share, by subject: cases, inputs, probes, diagnostics of a failure.

May import: exercise, processes.protocol, report.verdict, judge (evidence as data), reference, and one another.
"""
