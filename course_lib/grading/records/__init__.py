"""The learner's records in work/: passing answers, progress, hints, predictions. May import: report."""
