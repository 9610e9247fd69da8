"""Chips as actors of Dask workers, on this machine or on others.

Tensors travel through the process that runs the rounds: CPU times are those of the chips, elapsed
times those of the network.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import onnx

from mcm_compiler.execution.ring.plan import (
    HOST,
    RingFailedError,
    RingFailure,
    RingPlan,
    RingResult,
)
from mcm_compiler.execution.runner import open_session, run_session, same_bits
from mcm_compiler.processes.jobs import dask_client


class ChipActor:
    """One chip on a worker."""

    def __init__(self, model: bytes) -> None:
        self._session = open_session(model, stock=True, threads=1)

    def run(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Outputs of a round, and its CPU seconds."""
        start_s = time.thread_time()
        made = run_session(self._session, feeds)
        return made, time.thread_time() - start_s


class _Round(NamedTuple):
    outputs: Mapping[str, Any]
    seconds: list[float]
    left_s: float


def run_on_cluster(plan: RingPlan, scheduler: str) -> tuple[RingPlan, RingResult | RingFailure]:
    """Runs all rounds of a plan without states on the workers of a scheduler.

    Returns:
        The plan, whose cores are numbers of workers, and the result.

    Raises:
        CompileError: as `dask_client`.
    """
    # Actors belong to the current client, of which a process may have others.
    with closing(dask_client(scheduler)) as client, client.as_current():
        workers = sorted(client.nthreads())
        plan = replace(plan, cores=tuple(range(len(workers))))
        try:
            return plan, _run(plan, client, workers)
        except RingFailedError as error:
            return plan, error.failure


def _run(plan: RingPlan, client: Any, workers: list[str]) -> RingResult:
    models = [onnx.load(str(chip.file)).SerializeToString() for chip in plan.chips]
    actors: dict[tuple[int, int], Any] = {}
    for replica, index in product(range(plan.replicas), range(len(plan.chips))):
        worker = workers[plan.core_of(replica, index)]
        made = client.submit(ChipActor, models[index], actor=True, pure=False, workers=[worker])
        actors[replica, index] = _answer(made, plan, replica, index, "opening its model")

    def run_round(i: int, replica: int) -> _Round:
        inbox: list[dict[str, Any]] = [{} for _ in range(len(plan.chips) + 1)]
        given, seconds = plan.rounds[plan.step_of(replica, i)[0]], list[float]()
        for index in range(HOST, len(plan.chips)):
            if index != HOST:
                answer = actors[replica, index].run(inbox[index])
                given, spent_s = _answer(answer, plan, replica, index, f"round {i:,}")
                seconds.append(spent_s)
            for tensor in (one for one in plan.tensors if one.source == index):
                for reader in tensor.readers:
                    inbox[reader][tensor.name] = given[tensor.name]
        return _Round(inbox[HOST], seconds, time.monotonic())

    order = list(product(range(plan.total), range(plan.replicas)))
    pool = ThreadPoolExecutor(plan.replicas * plan.in_flight)
    try:
        rounds = list(pool.map(run_round, *zip(*order, strict=True)))
    finally:
        pool.shutdown(cancel_futures=True)
    outputs: list[Mapping[str, Any]] = [{} for _ in plan.rounds]
    differing = 0
    for (i, replica), one in zip(order[: plan.warm * plan.replicas], rounds, strict=False):
        step = plan.step_of(replica, i)[0]
        differing += bool(outputs[step]) and not same_bits(dict(one.outputs), outputs[step])
        outputs[step] = outputs[step] or one.outputs
    shape = plan.total, plan.replicas
    busy_s = np.moveaxis(np.reshape([one.seconds for one in rounds], (*shape, -1)), 0, -1)
    left_s = np.sort(np.reshape([one.left_s for one in rounds], shape).T)
    return RingResult(tuple(outputs), np.cumsum(busy_s, axis=-1), busy_s, left_s, differing)


def _answer(future: Any, plan: RingPlan, replica: int, index: int, what: str) -> Any:
    try:
        return future.result(timeout=plan.patience_s)
    except TimeoutError as error:
        failure = RingFailure(plan.chip_of(replica, index), what, hangs=True)
        raise RingFailedError(failure) from error
    except Exception as error:  # Dask's own for a worker that is lost, or what the chip raised
        why = " ".join(str(error).split()) or type(error).__name__
        raise RingFailedError(RingFailure(plan.chip_of(replica, index), why)) from error
