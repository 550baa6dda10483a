"""Runs one job over many arguments on several persistent workers; one failing item never hurts another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tuner.config import Limits
from tuner.errors import TunesmithError, WorkerDied
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote

OnResult = Callable[[int, Any], None]


class WorkerPool:
    """`n_workers` isolated workers, each forked when first needed. `setup` is run in each fresh process."""

    def __init__(
        self,
        zygote: Zygote,
        n_workers: int,
        limits: Limits,
        *,
        setup: Sequence[tuple[str, dict[str, Any], float]] = (),
    ) -> None:
        self._workers = [
            IsolatedWorker(
                zygote,
                jobs_per_worker=limits.jobs_per_worker,
                extra_memory_bytes=limits.extra_memory_bytes,
                setup=setup,
            )
            for _ in range(n_workers)
        ]

    @property
    def n_workers(self) -> int:
        return len(self._workers)

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def map(
        self, job: str, items: Sequence[dict[str, Any]], timeout_s: float, on_result: OnResult | None = None
    ) -> list[Any]:
        """Runs `job` once per item of keyword arguments; returns the answers in the order of the items.

        In the place of an item that failed stands its error: a WorkerError, or the TunesmithError its job raised.
        `on_result(index, answer)` is called in this thread as answers arrive. When it raises, or on Ctrl-C,
        the jobs in progress are killed and the exception goes on.
        """
        todo: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        for item in enumerate(items):
            todo.put(item)
        done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        stop = threading.Event()
        workers = self._workers[: len(items)]
        threads: list[threading.Thread] = []
        for worker in workers:
            thread = threading.Thread(target=_work, args=(worker, job, timeout_s, todo, done, stop), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more threads; fewer do the same work
                if not threads:
                    raise WorkerDied(f"the machine gives no thread: {error}") from error
                break
            threads.append(thread)
        answers: list[Any] = [None] * len(items)
        try:
            for _ in items:
                index, answer = done.get()
                if isinstance(answer, BaseException) and not isinstance(answer, TunesmithError):
                    raise answer
                answers[index] = answer
                if on_result is not None:
                    on_result(index, answer)
        except BaseException:
            stop.set()
            while any(thread.is_alive() for thread in threads):
                for worker in workers:
                    worker.abort()
                for thread in threads:
                    thread.join(timeout=0.05)
            raise
        for thread in threads:
            thread.join()
        return answers

    def close(self) -> None:
        """Kills the workers. Not while a `map` is in progress."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _work(
    worker: IsolatedWorker,
    job: str,
    timeout_s: float,
    todo: queue.SimpleQueue[tuple[int, dict[str, Any]]],
    done: queue.SimpleQueue[tuple[int, Any]],
    stop: threading.Event,
) -> None:
    """One thread of a map: takes items until there are none."""
    while not stop.is_set():
        try:
            index, kwargs = todo.get_nowait()
        except queue.Empty:
            return
        try:
            answer = worker.call(job, kwargs, timeout_s)
        except BaseException as error:  # noqa: BLE001  goes to the thread that called map
            answer = error
        done.put((index, answer))
