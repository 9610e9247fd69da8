"""What a box of cores has to be told besides the times of ops: dispatches and handovers.

Both are measured apart from the placements whose times are predicted.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from prediction_cases.segment_runs import SegmentRuns

ROUNDS = 400
RUNS = 30
QUIET = 0.25
"""Quantile of handovers that counts: a busy machine makes them longer, and nothing shorter."""


def handover_seconds() -> float:
    """From the end of a thread's work until one that waits for it goes on."""
    there, back = threading.Event(), threading.Event()
    sent = [0.0]
    took: list[float] = []

    def answer() -> None:
        for _ in range(ROUNDS):
            there.wait()
            took.append(time.perf_counter() - sent[0])
            there.clear()
            back.set()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(ROUNDS):
        sent[0] = time.perf_counter()
        there.set()
        back.wait()
        back.clear()
    thread.join()
    return float(np.quantile(took, QUIET))


def dispatch_seconds(whole: SegmentRuns, cut: SegmentRuns) -> float:
    """CPU seconds that one more segment costs, at least 0.

    Args:
        whole: a step in few segments.
        cut: the same step in many more, of a placement that is not predicted.

    Raises:
        ValueError: where there are not more.
    """
    more = len(cut.segments) - len(whole.segments)
    if more < 1:
        raise ValueError(f"{len(cut.segments)} segments are not more than {len(whole.segments)}")
    # By turns, so that a machine that gets slower does so for both.
    pairs = [(whole.in_turn(), cut.in_turn()) for _ in range(RUNS)]
    one, other = np.median(np.array(pairs), axis=0)
    return max(float(other - one) / more, 0.0)
