"""The device `onnxruntime`: one core of this machine, with onnxruntime's own optimisations."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.measuring.devices import MeasuringDevice, Profile
from mcm_compiler.processes.run_limits import quiet_onnxruntime

LEAST_INFERENCES = 17
MOST_INFERENCES = 270
ENOUGH_S = 0.1
"""Computing time of the profiled inferences of a small model in a session."""

LONG_S = 14.0
"""Computing time after which a large model needs fewer inferences, but never below 5."""

QUIET = 0.1
"""Share of inferences, and of the runs of a node, that nothing disturbs: another process on the
machine only adds to the others."""

PAUSED_US = 2000.0
"""Elapsed time of a node in which a busy machine gives the core to others in almost each run: Linux
does so after about 3 ms."""

_FEWEST = 5
_COPIED_BYTES = 1 << 22
_SUFFIX = "_kernel_time"


class OnnxRuntimeDevice(MeasuringDevice):
    """onnxruntime's CPU provider on one thread. Times are CPU seconds of that thread."""

    name: ClassVar[str] = "onnxruntime"
    summary: ClassVar[str] = "one core of this machine: onnxruntime, all optimisations, one thread"

    def facts(self) -> Mapping[str, str | int]:
        """Version of onnxruntime, processor, its cores, and threads of a session."""
        return {
            "runtime": f"onnxruntime {quiet_onnxruntime().__version__}",
            "cpu": _processor(),
            "cores": os.cpu_count() or 1,
            "threads": 1,
        }

    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        """Profiles inferences in one session, then times the same session without the profiler.

        Node times are scaled so that they sum to the CPU seconds of an inference.

        Raises:
            CompileError: MCM-V001 with the runtime's reason if it refuses the model.
        """
        ort = quiet_onnxruntime()
        with tempfile.TemporaryDirectory() as folder:
            optimised = Path(folder) / "optimised.onnx"
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / "profile")
            options.optimized_model_filepath = str(optimised)
            for key, value in (
                ("session.set_denormal_as_zero", "1"),
                ("session.optimized_model_external_initializers_file_name", "weights"),
                ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
            ):
                options.add_session_config_entry(key, value)
            try:
                session = ort.InferenceSession(
                    str(model), options, providers=["CPUExecutionProvider"]
                )
                outputs, once_s = _first_runs(session, inputs)
                runs = _number_of_runs(once_s)
                for feeds in [*inputs] * runs:
                    session.run(None, feeds)
                samples = _node_samples(Path(session.end_profiling()))
                seconds = float(np.mean([_quiet_s(session, feeds, runs) for feeds in inputs]))
            except Exception as error:  # the runtime raises a type of its own per status code
                message = f"onnxruntime {ort.__version__} fails: {' '.join(str(error).split())}"
                raise CompileError.of("MCM-V001", message[:500], at=model.name) from error
            executed = onnx.load(str(optimised), load_external_data=False).SerializeToString()
        walls = {name: _typical(durations, len(inputs)) for name, durations in samples.items()}
        return Profile(seconds, outputs, runs * len(inputs), computing_s(walls, seconds), executed)

    def copy_bytes_per_s(self) -> float:
        """Rate of copies in memory, the best of several."""
        source = np.ones(_COPIED_BYTES, np.uint8)
        copy = np.zeros_like(source)
        best_s = math.inf
        for _ in range(20):
            start = time.thread_time()
            np.copyto(copy, source)
            best_s = min(best_s, time.thread_time() - start)
        return _COPIED_BYTES / best_s


def _first_runs(
    session: Any, inputs: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], float]:
    names = [output.name for output in session.get_outputs()]
    outputs = [dict(zip(names, session.run(None, feeds), strict=True)) for feeds in inputs]
    start = time.thread_time()
    session.run(None, inputs[0])
    return outputs, time.thread_time() - start


def _number_of_runs(once_s: float) -> int:
    once_s = max(once_s, 1e-6)
    runs = min(max(math.ceil(ENOUGH_S / once_s), LEAST_INFERENCES), MOST_INFERENCES)
    return min(runs, max(math.ceil(LONG_S / once_s), _FEWEST))


def _quiet_s(session: Any, feeds: Mapping[str, Any], runs: int) -> float:
    """CPU seconds of one inference, as chips of a ring are timed."""
    found: list[float] = []
    for _ in range(runs):
        start = time.thread_time()
        session.run(None, feeds)
        found.append(time.thread_time() - start)
    return float(np.quantile(found, QUIET))


def _node_samples(trace: Path) -> dict[str, list[int]]:
    """Microseconds of each node by name, in the order of the runs, without those to warm up."""
    samples: defaultdict[str, list[int]] = defaultdict(list)
    for event in json.loads(trace.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            samples[event["name"].removesuffix(_SUFFIX)].append(int(event["dur"]))
    return samples


def _typical(durations: Sequence[int], inputs: int) -> float:
    """Mean over the inputs of the mean of the shortest runs.

    Each is cut to whole microseconds, half of one too short on average.
    """
    found: list[float] = []
    for first in range(inputs):
        ordered = np.sort(np.asarray(durations[inputs + 1 + first :: inputs] or durations))
        found.append(float(ordered[: math.ceil(len(ordered) * QUIET)].mean()))
    return float(np.mean(found)) + 0.5


def computing_s(wall_us: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Elapsed times of nodes, scaled to the CPU seconds of all.

    Where that is less, others had the core meanwhile: of long nodes in each run, so that these are
    scaled alone, and of short ones in none of the runs that count.
    """
    short_s = 1e-6 * math.fsum(us for us in wall_us.values() if us < PAUSED_US)
    all_s = 1e-6 * max(math.fsum(wall_us.values()), 1e-9)
    if short_s < seconds < all_s:
        long = (seconds - short_s) / (all_s - short_s)
        return {n: 1e-6 * us * (1.0 if us < PAUSED_US else long) for n, us in wall_us.items()}
    return {name: 1e-6 * us * seconds / all_s for name, us in wall_us.items()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
