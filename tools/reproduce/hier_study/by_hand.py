"""What the paper's experts wrote down for recurrent networks, by the names of the zoo's ops."""

from __future__ import annotations

import re

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem

_LAYER = re.compile(r"(?:layer|lstm)\.(\d+)")
_ATTENTION = re.compile(r"attention|memory")
_FIRST = re.compile(r"embedding")


def side_by_side(problem: StepProblem, box: Box, *, attention_first: bool) -> Ints:
    """Layer l of encoder and decoder on GPU l, going round; embeddings with the first layer.

    Softmax, loss and whatever else has no layer go with the last GPU, attention with the first or
    the last one.

    Args:
        problem: of a training step of `rnnlm` or `nmt-training`.
        box: a host and GPUs.
        attention_first: where attention goes.

    Returns:
        `[N]`, devices.
    """
    gpus = np.flatnonzero(box.kind_of != box.kind_of[box.host])
    wanted = np.full(problem.num_ops, gpus[-1], np.int64)
    for op, name in enumerate(problem.names):
        found = _LAYER.search(name)
        if found is not None:
            wanted[op] = gpus[int(found[1]) % len(gpus)]
        elif _FIRST.search(name) or (attention_first and _ATTENTION.search(name)):
            wanted[op] = gpus[0]
    first = np.unique(problem.together, return_index=True)[1]
    wanted = wanted[first[problem.together]]
    anywhere = np.argmax(problem.allowed, axis=1)
    runs = problem.allowed[np.arange(problem.num_ops), wanted]
    return np.where(runs, wanted, anywhere).astype(np.int32)
