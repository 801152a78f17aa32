"""Requests of an engine that has a Scheduler: what the real engine and those without a model share.

May import: nothing of the course.
"""


class Scheduled:
    """Part of an engine whose `scheduler` keeps its requests."""

    @property
    def has_work(self):
        return self.scheduler.has_work

    def add(self, request):
        """As Scheduler.add."""
        return self.scheduler.add(request)

    def abort(self, name):
        """End a request in any state. -> its last Output, or None where there is no such request"""
        return self.scheduler.abort(name)
