"""Outputs of one request, handed from the engine's thread to its reader, by `for` or by `async for`.

May import: errors.
"""

import asyncio
import collections
import threading
import time

from ..errors import TimedOut


class Stream:
    """Outputs of one request, by `for` or `async for`; the last has a finish_reason.

    Raises what ended the request early: RefusedError, BusyError, TimedOut, EngineStopped. A reader that wants no more
    calls `close`, which frees the request's pages within one step.

    Attributes
    ----------
    request : Request
    submitted, first_token, last_token : float, seconds of time.monotonic(); None where there is no token yet
    deadline : float or None, on the same clock
    num_tokens : int, tokens so far
    """

    def __init__(self, request, timeout, close):
        self.request, self.timeout, self._close = request, timeout, close
        self.submitted, self.first_token, self.last_token = time.monotonic(), None, None
        self.deadline = None if timeout is None else self.submitted + timeout
        self.num_tokens, self.ended = 0, False
        self._items, self._ready, self._waiter = collections.deque(), threading.Condition(), None

    def close(self, reason="abort"):
        """End the request, if it has not ended; nothing more is read. reason: for the metrics."""
        self._close(self, reason)

    def put(self, item):
        """Add an Output, an exception, or None for the end without either; what follows the end is dropped."""
        with self._ready:
            if self.ended:
                return
            self.ended = item is None or isinstance(item, Exception) or item.finish_reason is not None
            if item is not None:
                self._items.append(item)
            self._ready.notify_all()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            loop, future = waiter
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def count(self, output, now):
        """Note the time and number of an output's tokens."""
        if output.tokens:
            self.first_token, self.last_token = self.first_token or now, now
            self.num_tokens += len(output.tokens)

    def expire(self):
        """End the request because its time is over."""
        error = TimedOut(f"the request was not finished in {self.timeout:g} s, the time-out; it is ended.")
        self._close(self, "abort", error)

    def waiting(self):
        """Outputs that are there already: a reader that is late takes them all at once."""
        with self._ready:
            outputs = []
            while self._items and not isinstance(self._items[0], Exception):
                outputs.append(self._items.popleft())
        return outputs

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            with self._ready:
                if self._ready.wait_for(self._has_item, self._remaining()):
                    return self._take(StopIteration)
            self.expire()  # the engine is late or hangs: the reader's own thread ends the request

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            with self._ready:
                if self._has_item():
                    return self._take(StopAsyncIteration)
                future = asyncio.get_running_loop().create_future()
                self._waiter = (future.get_loop(), future)
            try:
                await asyncio.wait_for(future, self._remaining())
            except TimeoutError:
                self.expire()

    def _has_item(self):
        return self._items or self.ended

    def _remaining(self):
        """Seconds to wait; a little even where the deadline is over, for an end that is on its way."""
        return None if self.deadline is None else max(0.01, self.deadline - time.monotonic())

    def _take(self, end):
        if not self._items:
            raise end
        item = self._items.popleft()
        if isinstance(item, Exception):
            raise item
        return item


def _wake(future):
    if not future.done():
        future.set_result(None)
