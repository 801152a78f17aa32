"""Judges an answer, in a process of its own. May import: answer, exercise, processes, report, worker."""
