"""The engine in a thread of its own: requests go in, streams of outputs come back.

A thread, not a process: the engine's time is spent in operators of torch and in waiting for a GPU, which release the
interpreter's lock, and a request crosses no pipe. What it costs: scheduling and the HTTP side share that lock, so a
small model under many clients is served slower than by two processes, and a fault that takes the process takes both.

May import: errors, expect, request, stream.
"""

import collections
import gc
import logging
import threading
import time

from .. import expect
from ..errors import BusyError, EngineStopped, ModelError, ServingError
from .request import require_request
from .stream import Stream

IDLE, RUNNING, STOPPED, FAILED = "idle", "running", "stopped", "failed"
RATE_OVER = 32  # finished requests from which the rate of finishing is taken
LONGEST_RETRY = 60.0  # seconds


class Service:
    """A serving engine that runs in a thread; every method may be called from any thread.

        with Service(engine) as service:
            for output in service.submit(request):
                …

    Attributes
    ----------
    state : "idle", "running", "stopped" or "failed"
    stats : Stats of the engine after its last step, None before the start
    thread : threading.Thread of the engine, or None before the start
    """

    def __init__(self, engine, make_engine=None, *, max_open=1024, listener=None):
        """make_engine : function() that gives a new engine for `restart`, or None: a restart is refused
        max_open : int, requests that wait or run at once; more are a BusyError
        listener : object with tokens(stream, output, now) and finished(stream, reason, now), called by any thread
        """
        max_open = expect.whole("max_open", max_open, 1)
        if make_engine is not None:
            expect.function("make_engine", make_engine)
        self.engine, self.make_engine, self.max_open, self.listener = engine, make_engine, max_open, listener
        self.state, self.error, self.stats, self.num_restarts = IDLE, None, None, 0
        self._lock, self._inbox, self._open = threading.Condition(), [], {}
        self._finish_times = collections.deque(maxlen=RATE_OVER)
        self.thread = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.stop()

    @property
    def num_open(self):
        """Requests that wait or run."""
        return len(self._open)

    def start(self):
        """Start the thread, unless it runs. Returns the service."""
        with self._lock:
            if self.state == RUNNING:
                return self
            if self.state == FAILED:
                raise EngineStopped(f"{self.error} Call restart() for a new engine.")
            self.state, self.error = RUNNING, None
        self.thread = threading.Thread(target=self._run, name="serving-engine", daemon=True)
        self.thread.start()
        return self

    def stop(self, timeout=30.0):
        """End every request, let the step in flight finish, and end the thread; timeout in seconds."""
        with self._lock:
            if self.state == RUNNING:
                self.state, self.error = STOPPED, "the service was stopped."
            self._end_all(EngineStopped("the service was stopped before the request was finished."), "abort")
        if self.thread is not None:
            self.thread.join(timeout)
            if self.thread.is_alive():
                raise ServingError(f"the engine's step did not end in {timeout:g} s; its thread ends with the process.")

    def restart(self):
        """A new engine in place of one that failed or was stopped. Returns the service."""
        if self.make_engine is None:
            raise ServingError("this service cannot restart: it was made without make_engine, which builds an engine.")
        self.stop()
        self._inbox.clear()
        self.engine = self.stats = None
        gc.collect()  # an engine with graphs holds itself; its memory must be free before the new one takes its own
        self.engine = self.make_engine()
        self.state, self.num_restarts = IDLE, self.num_restarts + 1
        return self.start()

    def submit(self, request, timeout=None):
        """A Stream of the request's outputs; timeout: seconds from now to its last token, or None.

        Raises
        ------
        BusyError      max_open requests are open; its retry_after says when to ask again
        EngineStopped  the engine failed or the service does not run
        """
        require_request(request)
        timeout = None if timeout is None else expect.real("timeout", timeout, 0, error=ServingError)
        stream = Stream(request, timeout, self._drop)
        with self._lock:
            if self.state != RUNNING:
                raise EngineStopped(self.error or "the service is not started; call start().")
            if request.name in self._open:
                raise ServingError(f"a request named {request.name!r} is open already; give each a name of its own.")
            if len(self._open) >= self.max_open:
                wait = self._retry_after()
                text = f"{self.max_open} requests wait or run, as many as this service takes"
                raise BusyError(f"{text}; ask again in {wait:.0f} s.", retry_after=wait)
            self._open[request.name] = stream
            self._inbox.append((self._add, stream))
            self._lock.notify_all()
        return stream

    def abort(self, name):
        """End the open request of this name; nothing happens where there is none."""
        stream = self._open.get(name)
        if stream is not None:
            stream.close()

    def _retry_after(self):
        """Seconds in which the last rate of finishing frees a place."""
        times = self._finish_times
        if len(times) < 2:
            return 1.0
        return min(LONGEST_RETRY, max(1.0, (time.monotonic() - times[0]) / len(times)))

    def _drop(self, stream, reason, error=None):
        """The reader's or the clock's end of a request."""
        with self._lock:
            if self._open.get(stream.request.name) is not stream:
                return
            self._remove(stream, reason)
            self._inbox.append((self._abort, stream))
            self._lock.notify_all()
        stream.put(error)

    def _remove(self, stream, reason):
        del self._open[stream.request.name]
        now = time.monotonic()
        self._finish_times.append(now)
        if self.listener is not None:
            self.listener.finished(stream, reason, now)

    def _end_all(self, error, reason):
        """End every open request, and have the engine abort it; the caller holds the lock."""
        for stream in list(self._open.values()):
            self._remove(stream, reason)
            self._inbox.append((self._abort, stream))
            stream.put(error)
        self._lock.notify_all()

    # from here on: the engine's thread

    def _run(self):
        try:
            self.stats = self.engine.stats()
            while self._obey():
                outputs = self.engine.step() if self.engine.has_work else ()
                self.stats = self.engine.stats()  # before the outputs: a client that has its answer finds them so
                self._deliver(outputs)
                for stream in list(self._open.values()):
                    if stream.deadline is not None and stream.deadline < time.monotonic():
                        stream.expire()
            while self.engine.has_work:  # a step in flight, which holds pages
                self.engine.step()
        except BaseException as error:  # SystemExit too: whatever ends this thread ends every request in words
            self._fail(error)

    def _obey(self):
        """Take what came in, waiting for it where the engine has no work; returns whether to go on."""
        with self._lock:
            while self.state == RUNNING and not self._inbox and not self.engine.has_work:
                self._lock.wait()
            goes_on, inbox, self._inbox = self.state == RUNNING, self._inbox, []
        for verb, stream in inbox:
            verb(stream)
        return goes_on

    def _add(self, stream):
        if stream.ended:
            return
        try:
            self.engine.add(stream.request)
        except (ServingError, ModelError) as error:  # this request's fault; anything else is the engine's
            with self._lock:
                if self._open.get(stream.request.name) is stream:
                    self._remove(stream, "error")
            stream.put(error)

    def _abort(self, stream):
        self.engine.abort(stream.request.name)  # which does nothing where it never had it, or has finished it

    def _deliver(self, outputs):
        now = time.monotonic()
        for output in outputs:
            with self._lock:
                stream = self._open.get(output.name)
                if stream is None:  # its reader left during this step
                    continue
                if self.listener is not None:
                    self.listener.tokens(stream, output, now)
                stream.count(output, now)
                if output.finish_reason is not None:
                    self._remove(stream, output.finish_reason)
            stream.put(output)

    def _fail(self, error):
        words = (str(error).strip() or "no message").splitlines()[0].removesuffix(".")
        logging.getLogger(__name__).error("the serving engine failed", exc_info=error)
        with self._lock:
            self.state = FAILED
            self.error = f"the engine failed with {type(error).__name__}: {words}."
            self._end_all(EngineStopped(f"{self.error} The request was ended; send it again after a restart."), "error")
