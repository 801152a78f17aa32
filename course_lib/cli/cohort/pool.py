"""Judges many jobs at once: threads with a judge each on this machine, or a cluster of dask.distributed.

A judge is a process of its own that is started again, and asked again, when it ends. A worker that a cluster loses is
the scheduler's business: it gives the job to another one.

May import: errors, jobs.
"""

import asyncio
import concurrent.futures

from ...errors import CourseError
from . import jobs as jobs_module

_PATIENCE = "15s"  # for a scheduler's first answer


def outcomes(jobs, *, workers, scheduler=None):
    """Yield (job, what `jobs.judged` returned) as they come.

    Parameters
    ----------
    jobs : list of Job
    workers : int, judges at once on this machine
    scheduler : str or None; "tcp://host:port" of a Dask cluster, which then does the work

    Raises
    ------
    CourseError  what `judged` raises, or no cluster where one was named
    """
    return _on_cluster(jobs, scheduler) if scheduler else _here(jobs, workers)


def _here(jobs, workers):
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=workers, thread_name_prefix="cohort")
    try:
        futures = {pool.submit(jobs_module.judged, job): job for job in jobs}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    finally:  # also when the caller stops early
        pool.shutdown(wait=False, cancel_futures=True)
        jobs_module.end_judges()
        pool.shutdown()
        jobs_module.end_judges()  # of a thread that had just begun


def _on_cluster(jobs, scheduler):
    if not jobs:
        return
    try:
        import distributed
    except ImportError:
        raise CourseError(
            "--scheduler needs dask.distributed, which is not installed: pip install 'distributed>=2025.1', or the "
            "course with its extra `cohort`"
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise CourseError(f"no Dask scheduler answers at {scheduler}: {error}") from None
    with client:
        futures = client.map(jobs_module.judged, jobs, key=[f"cohort-{job.key}" for job in jobs], pure=False)
        named = dict(zip((future.key for future in futures), jobs, strict=True))
        for future in distributed.as_completed(futures):
            yield named[future.key], _result(future, distributed)
            future.release()


def _result(future, distributed):
    """A job's outcome; a job that kills every worker that takes it has none."""
    try:
        return future.result()
    except distributed.KilledWorker:
        return {"error": "every worker of the cluster that took this answer was lost"}
    except (concurrent.futures.CancelledError, asyncio.CancelledError, OSError) as error:
        raise CourseError(f"the Dask cluster was lost ({error}); the same command goes on from the journal") from None
