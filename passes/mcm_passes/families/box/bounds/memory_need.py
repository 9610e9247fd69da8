"""Memory that a step needs wherever its ops are placed; it proves that some steps fit nowhere."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text


def check_memory(problem: StepProblem, box: Box) -> None:
    """Checks what can be checked without a placement.

    All variables are in memory throughout, in one copy at least, and so are weights that lie ready;
    besides them at any time what the op that runs then reads and makes, and in the end the outputs.
    What one op reads and makes lies on one device, and so do variables of ops that run together.

    Raises:
        CompileError: MCM-D012 where that is more than there is.
    """
    held = _held_throughout(problem)
    need = _need_of_ops(problem)
    passing = _need_of_ops(problem, without=held)
    outputs = problem.kept & ~problem.stays & (problem.view_of < 0) & (problem.producer >= 0)
    at_end = int(problem.value_bytes[outputs].sum())
    throughout = int(problem.value_bytes[held].sum())
    least = throughout + max(int(passing.max(initial=0)), at_end)
    memory = int(box.memory_bytes.sum())
    if least > memory:
        raise _refusal(
            f"a step holds {bytes_text(least)} at once wherever its ops run "
            f"({bytes_text(throughout)} of weights and variables), and the box has "
            f"{bytes_text(memory)}",
            None,
        )
    room = np.where(problem.allowed, box.memory_bytes, 0).max(axis=1, initial=0)
    variables = np.zeros(problem.num_groups, np.int64)
    stays = np.flatnonzero(problem.stays)
    np.add.at(variables, problem.together[problem.producer[stays]], problem.value_bytes[stays])
    need = np.maximum(need, variables[problem.together])
    worst = int(np.argmax(need - room)) if len(need) else 0
    if len(need) and need[worst] > room[worst]:
        raise _refusal(
            f"op {quote(problem.names[worst])} needs {bytes_text(int(need[worst]))} on one device, "
            f"and none that may run it has more than {bytes_text(int(room[worst]))}",
            f"op {quote(problem.names[worst])}",
        )


def _refusal(message: str, at: str | None) -> CompileError:
    hint = "take a smaller batch, or a box with more memory"
    return CompileError(Diagnostic("MCM-D012", message, at=at, hint=hint))


def _held_throughout(problem: StepProblem) -> np.ndarray:
    """`[V]`, variables, and weights that lie ready and are read."""
    read = np.zeros(problem.num_values, np.bool_)
    read[problem.reads] = True
    return problem.stays | ((problem.producer < 0) & read)


def _need_of_ops(problem: StepProblem, without: np.ndarray | None = None) -> Longs:
    """`[N]`, bytes that lie on an op's device while it runs: what it reads, and what it makes.

    Values that are views of each other may lie in one block, which is as large as the smallest of
    those that it is a view of, at least; of what one op reads of them the largest counts.
    """
    root, least = _roots(problem)
    counts = problem.value_bytes.copy()
    views = problem.view_of >= 0
    counts[views] = 0
    if without is not None:
        counts[without] = 0
        least = np.where(without[root], 0, least)
    made = np.flatnonzero(problem.producer >= 0)
    need = np.zeros(problem.num_ops, np.int64)
    np.add.at(need, problem.producer[made], counts[made])
    reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.read_begin))
    sizes = least[problem.reads]
    order = np.lexsort((-sizes, root[problem.reads], reader))
    reader, roots, sizes = reader[order], root[problem.reads][order], sizes[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (reader[1:] != reader[:-1]) | (roots[1:] != roots[:-1])
    np.add.at(need, reader[first], sizes[first])
    return need


def _roots(problem: StepProblem) -> tuple[Longs, Longs]:
    """`[V]` each: the value that each is a view of in the end, and the smallest on the way."""
    root = np.arange(problem.num_values)
    least = problem.value_bytes.copy()
    above = problem.view_of.astype(np.int64)
    while (above >= 0).any():
        views = np.flatnonzero(above >= 0)
        least[views] = np.minimum(least[views], problem.value_bytes[above[views]])
        root[views] = above[views]
        above[views] = problem.view_of[above[views]]
    return root, least
