"""Sizes that nothing determines: guessed by name, and tried in onnxruntime."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.drafting.solution import Found, Solution
from mcm_compiler.drafting.symbols import OpenModel, Symbol, contradiction
from mcm_compiler.graph.dimension_formulas import formula_of
from mcm_compiler.graph.estimated_dims import BATCH, usual_size
from mcm_compiler.ir.reading.importer import import_onnx
from mcm_compiler.ir.shapes.shapes_by_run import FileRuns

OTHERS = (32, 64, 16, 8, 28, 128, 224, 256, 299, 4, 20, 24, 12, 10, 96, 48, 512, 6, 5, 3, 2, 1)
"""Sizes that are tried one after the other where a guess does not run."""

NOT_SEEN = "not seen to run"
"""Note on guesses with which no run succeeded."""

MAX_RUNS = 24
"""Runs of a model in onnxruntime, at most; half of them for what faults speak of."""

MAX_TRIED = 240
"""Sizes that are tried of one model; half of them for what faults speak of."""

MIN_TRIED = 10
"""Sizes that are tried of any model."""

MAX_VISITED = 400_000
"""Ops that onnx's inference visits for one model, in all trials together."""

MAX_DEPTH = 4
"""Sizes that are changed one after the other by what faults speak of."""

MAX_HINTS = 8
"""Sizes that are tried of one fault."""

MAX_HINTED = 1 << 12
"""Larger numbers are no sizes, but bytes or addresses."""

_NUMBER = re.compile(r"(?<![\w.:/-])[0-9]{1,6}(?![\w])")
"""A number that is not part of a name or a place in a source file."""

MAX_SCANNED = 130
"""All sizes below are tried where none of the usual ones fits: onnx's inference says no quickly."""


def guessed(opened: OpenModel, solution: Solution) -> dict[str, Found]:
    """A size for each symbol: found ones, and guesses by name where nothing is found."""
    sizes: dict[str, Found] = {}
    for key, symbol in opened.symbols.items():
        first = solution.first(key)
        if first in solution.found:
            sizes[key] = solution.found[first]
            continue
        if first in sizes:
            sizes[key] = sizes[first]
            continue
        size = usual_size(symbol.name, symbol.axis, symbol.rank)
        least = solution.least_of(first)
        if least is not None and least.size > size:
            sizes[key] = Found(least.size, f"at least this many are {least.reason}", guessed=True)
        else:
            sizes[key] = Found(size, "a guess", guessed=True)
    return following(opened, sizes)


def following(opened: OpenModel, sizes: Mapping[str, Found]) -> dict[str, Found]:
    """Sizes of all symbols, in which those follow from others that are made of them by name."""
    given = {symbol.name: sizes[key].size for key, symbol in opened.symbols.items()}
    found = dict(sizes)
    for key, symbol in opened.symbols.items():
        formula = formula_of(symbol.name)
        if formula is None or not formula.names <= given.keys():
            continue
        with contextlib.suppress(ZeroDivisionError):
            if (size := formula.value(given)) >= 0:
                found[key] = Found(size, f"it is {quote(symbol.name)}")
    return found


def tried(path: Path, opened: OpenModel, solution: Solution) -> dict[str, Found]:
    """Sizes of all symbols with which the model runs, if some are found; else the guesses.

    Where the guesses do not run, the numbers in what onnx or onnxruntime says of that are tried,
    and then usual sizes.

    Args:
        path: the file.
        opened: of it.
        solution: what follows from the model.
    """
    sizes = guessed(opened, solution)
    open_keys = [key for key, found in sizes.items() if found.guessed]
    if not open_keys:
        return sizes
    search = _Search(path, opened)
    waiting = deque([(sizes, 0)])
    while waiting and not search.is_over(MAX_RUNS // 2, MAX_TRIED // 2):
        hinted_at, depth = waiting.popleft()
        candidate = following(opened, hinted_at)
        reason = search.fault(candidate)
        if reason is None:
            return candidate
        if depth < MAX_DEPTH:
            hinted = _hinted(solution, sizes, candidate, open_keys, reason)
            waiting += [(other, depth + 1) for other in hinted]
    for others in _candidates(opened, solution, sizes, open_keys):
        if search.is_over(MAX_RUNS, MAX_TRIED):
            break
        candidate = following(opened, others)
        if search.fault(candidate) is None:
            return candidate
    told = f"a guess, {NOT_SEEN}: {search.first_reason}"
    return {
        key: Found(found.size, told, guessed=True) if found.guessed else found
        for key, found in sizes.items()
    }


class _Search:
    """Sizes of one model that were tried."""

    def __init__(self, path: Path, opened: OpenModel) -> None:
        self._path = path
        self._opened = opened
        self._told: dict[tuple[int, ...], str | None] = {}
        self.runs = 0
        self.first_reason: str | None = None

    def is_over(self, runs: int, tried: int) -> bool:
        """Return whether this many runs or sizes were tried; of large models fewer sizes."""
        visited = MAX_VISITED // (len(self._opened.model.graph) + 1)
        most = max(MIN_TRIED, min(tried, visited))
        return self.runs >= runs or len(self._told) >= most

    def fault(self, candidate: Mapping[str, Found]) -> str | None:
        """Why the model does not run with these sizes, or None; each is tried once."""
        numbers = {key: found.size for key, found in candidate.items()}
        mark = tuple(numbers.values())
        if mark not in self._told:
            reason = contradiction(self._opened, numbers)
            if reason is None:
                self.runs += 1
                reason = run_fault(self._path, self._opened, numbers)
            self._told[mark] = reason
            self.first_reason = self.first_reason or reason
        return self._told[mark]


def _hinted(
    solution: Solution,
    guesses: Mapping[str, Found],
    candidate: Mapping[str, Found],
    open_keys: list[str],
    reason: str,
) -> list[dict[str, Found]]:
    """Sizes that a fault speaks of, each for a dimension that has another one of its numbers."""
    message = reason.rpartition("Status Message:")[2]
    numbers = list(dict.fromkeys(map(int, _NUMBER.findall(message))))
    classes: dict[str, list[str]] = {}
    for key in open_keys:
        classes.setdefault(solution.first(key), []).append(key)
    # A size that the message names is more likely at fault than one that it does not.
    ordered = sorted(classes.values(), key=lambda keys: candidate[keys[0]].size not in numbers)
    found: list[dict[str, Found]] = []
    for keys in ordered:
        found += [
            {**candidate, **{key: _other(number, guesses[key]) for key in keys}}
            for number in numbers
            if 1 <= number <= MAX_HINTED and number != candidate[keys[0]].size
        ]
    return found[:MAX_HINTS]


def run_fault(path: Path, opened: OpenModel, sizes: Mapping[str, int]) -> str | None:
    """Why a model does not run with sizes of all its symbols; None where it does."""
    dims, shapes = arguments(opened, sizes)
    try:
        model, _ = import_onnx(path, dims, shapes)
    except CompileError as error:
        return error.diagnostics[0].message
    return FileRuns(model).observe(list(model.graph.outputs)).reason


def arguments(
    opened: OpenModel, sizes: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Sizes as a compile takes them: of names, and whole shapes where a dimension has none.

    What a compile makes of other names by itself is left out.
    """
    shapes = {
        name: tuple(sizes[size] if isinstance(size, str) else size or 0 for size in shape)
        for name, shape in opened.shapes.items()
        if shape is not None and any(_nameless(opened, size) for size in shape)
    }
    names = {symbol.name for symbol in opened.symbols.values()}
    dims = {
        symbol.name: sizes[key]
        for key, symbol in opened.symbols.items()
        if symbol.name and any(name not in shapes for name, _ in symbol.places)
        if (formula := formula_of(symbol.name)) is None or not formula.names <= names
    }
    return dims, shapes


def _nameless(opened: OpenModel, size: int | str | None) -> bool:
    return isinstance(size, str) and not opened.symbols[size].name


def _candidates(
    opened: OpenModel, solution: Solution, sizes: Mapping[str, Found], open_keys: list[str]
) -> Iterator[dict[str, Found]]:
    """Usual sizes: for all but batches alike, then for each by itself."""
    free = [key for key in open_keys if not _is_batch(opened.symbols[key])] or open_keys
    groups = [(free, (*OTHERS, *(n for n in range(1, MAX_SCANNED) if n not in OTHERS)))]
    alone = list(dict.fromkeys(solution.first(key) for key in free))
    if len(alone) > 1:
        groups += [
            ([key for key in free if solution.first(key) == first], OTHERS) for first in alone
        ]
    for group, others in groups:
        least = max((s.size for key in group if (s := solution.least_of(key))), default=1)
        for size in others:
            if size >= least:
                yield {**sizes, **{key: _other(size, sizes[key]) for key in group}}


def _other(size: int, guess: Found) -> Found:
    return Found(size, f"onnxruntime runs with it, and not with {guess.size}", tried=True)


def _is_batch(symbol: Symbol) -> bool:
    return usual_size(symbol.name, symbol.axis, symbol.rank) == BATCH
