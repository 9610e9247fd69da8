"""Runs of placed steps: a thread for each device, and how long everything took."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True)
class StepTimes:
    """Of one step.

    Attributes:
        seconds: from the start of the threads until the last has ended.
        delayed_s: while threads could have run and had no core, added up; 0 where the system does
            not tell.
        work_s: CPU seconds of each segment.
    """

    seconds: float
    delayed_s: float
    work_s: tuple[float, ...]


class SegmentRuns:
    """The segments of a folder, each with a session, and a thread for each device."""

    def __init__(self, folder: Path, schedule: Any, inputs: Mapping[str, Any]) -> None:
        self.segments: Sequence[Any] = schedule["segments"]
        self._sessions = [session_of(folder / s["file"]) for s in self.segments]
        self._devices = sorted({s["device"] for s in self.segments})
        self._inputs = inputs

    def step(self) -> StepTimes:
        """Runs one step, each segment as soon as all its inputs are there."""
        made = {name: threading.Event() for s in self.segments for name in s["outputs"]}
        values = dict(self._inputs)
        work = [0.0] * len(self.segments)
        delays: list[float] = []

        def run(device: str) -> None:
            waited = delayed_seconds()
            for k, segment in enumerate(self.segments):
                if segment["device"] != device:
                    continue
                for name in segment["inputs"]:
                    if name in made:
                        made[name].wait()
                begin = time.thread_time()
                found = self._sessions[k].run(
                    segment["outputs"], {name: values[name] for name in segment["inputs"]}
                )
                values.update(zip(segment["outputs"], found, strict=True))
                work[k] = time.thread_time() - begin
                for name in segment["outputs"]:
                    made[name].set()
            delays.append(delayed_seconds() - waited)

        threads = [threading.Thread(target=run, args=(device,)) for device in self._devices]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return StepTimes(time.perf_counter() - start, sum(delays), tuple(work))

    def in_turn(self) -> float:
        """CPU seconds of all segments on one thread, one after the other."""
        values = dict(self._inputs)
        begin = time.thread_time()
        for segment, session in zip(self.segments, self._sessions, strict=True):
            found = session.run(
                segment["outputs"], {name: values[name] for name in segment["inputs"]}
            )
            values.update(zip(segment["outputs"], found, strict=True))
        return time.thread_time() - begin


def put_together(segments: Sequence[Any], work_s: Sequence[float], handover_s: float) -> float:
    """Seconds of a step from those of its segments, if threads never wait for a core.

    Args:
        segments: of a schedule.
        work_s: of each segment.
        handover_s: until a thread that waits for another goes on.
    """
    end: dict[str, tuple[float, str]] = {}
    free: dict[str, float] = {}
    for segment, seconds in zip(segments, work_s, strict=True):
        device = segment["device"]
        begin = free.get(device, 0.0)
        for made, where in (end[name] for name in segment["inputs"] if name in end):
            begin = max(begin, made + (handover_s if where != device else 0.0))
        free[device] = begin + seconds
        end.update((name, (free[device], device)) for name in segment["outputs"])
    return max(free.values(), default=0.0)


def delayed_seconds() -> float:
    """How long this thread has waited for a core so far."""
    try:
        return int(SCHEDSTAT.read_text(encoding="ascii").split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def session_of(path: Path, profile: str = "") -> Any:
    """A session of one thread that runs the ops as they stand.

    Args:
        path: of the model.
        profile: where a profile begins its name, if one is wanted.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
