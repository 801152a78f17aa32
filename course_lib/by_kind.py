"""Findings of a launch by their kind: what the reports of both engines share.

May import: nothing of the course.
"""


def _findings(kind):
    return property(lambda report: report.of_kind(kind), doc=f"The findings of the kind {kind}.")


class FindingsByKind:
    """Part of a report that has a list `findings`, each with its `kind`."""

    races = _findings("race")
    out_of_bounds = _findings("out_of_bounds")
    misaligned = _findings("misaligned")
    uninitialised_reads = _findings("uninitialised_read")
    divergent_barriers = _findings("divergent_barrier")

    def of_kind(self, kind):
        """The findings of one kind."""
        return [finding for finding in self.findings if finding.kind == kind]

    @property
    def ok(self):
        """True when there is no finding of any kind."""
        return not self.findings
