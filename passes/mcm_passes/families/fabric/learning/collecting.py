"""Measuring mappings of random blocks: what the network learns from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.contracts.fabrics.measurement import MappingJudge, Measurements
from mcm_compiler.contracts.fabrics.target import MapsChips, UnitChoice
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models.blocks.random_blocks import FAMILIES, random_block
from mcm_models.mapping_model import data_set
from mcm_models.mapping_model.data_files import load_data, save_data
from mcm_models.mapping_model.data_set import Learned, make_of
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.annealing.starts import random_mappings
from mcm_passes.families.fabric.formulas.analytic import Busiest, RoundTrips, WireLength

ATTEMPTS = 300
"""Blocks that are drawn for a graph until one fits."""

UNSELECTED = 7
"""One graph in this many is taken whether its mappings differ or not."""

PART = 10
"""Graphs of a file of the collection."""

MOST_HOPS = 25_000_000
"""Hops of flits that are played for a label, about half a second's on one core. Without a limit
nearly all time went to long blocks whose state does not come back; they are not tested on
anyway."""

_FEWEST, _MOST = 20, 2000
"""Evaluations of searches whose results are measured, between which they are drawn."""

_LOOKED_AT = 6
"""Random mappings by which it is decided whether mappings of a block differ."""

MODELS: tuple[RoundTrips | Busiest | WireLength, ...] = (
    RoundTrips(),
    RoundTrips(wire=4.0),
    Busiest(),
    WireLength(),
)
"""Formulas by which mappings are searched for."""


@dataclass(frozen=True, kw_only=True)
@checked(
    graphs=at_least(1),
    drawn=at_least(1),
    searched=at_least(0),
    fewest=at_least(1),
    units=at_least(2),
    longest=at_least(50),
    contrast=at_least(1),
)
class CollectionSize:
    """How much is measured.

    Attributes:
        graphs: blocks.
        drawn: mappings of each that are drawn at random.
        searched: mappings of each that searches by formulas find, some short, some long.
        fewest: units that a block has at least, of all kinds; mappings of small blocks hardly
            differ.
        units: compute units that a block may be meant for.
        longest: largest bound of a block, in cycles.
        contrast: how much longer than the bound random mappings have to take by the formula, on
            average. Where they do not, no mapping is better than another. One graph in
            `UNSELECTED` is taken as it comes, so that such blocks are known, too.
    """

    graphs: int = 420
    drawn: int = 6
    searched: int = 8
    fewest: int = 20
    units: int = 72
    longest: int = 50_000
    contrast: float = 1.15


def learned_of(target: MapsChips) -> Learned:
    """Learned part of a model that learns from this target."""
    return Learned(make_of(target.fabric), target.lowering_hash, target.mapping_judge().physics)


def collect(
    target: MapsChips,
    size: CollectionSize,
    seed: int,
    folder: Path,
    tell: Callable[[int, int], None],
) -> data_set.MappingData:
    """Measures, or goes on where an earlier process was stopped.

    Args:
        target: of whose blocks and simulator.
        size: see there.
        seed: each graph depends on it and on the graph's number alone.
        folder: for one file for each `PART` graphs.
        tell: called with the number of graphs that are done, and how many of them were left out
            because they cannot be measured.

    Raises:
        CompileError: MCM-M054 to M056 for files in the folder that are no parts of it, MCM-M057
            for parts of another collection, MCM-M061 where no block fits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    learned = learned_of(target)
    graphs: list[data_set.MeasuredGraph] = []
    left_out = 0
    for begin in range(0, size.graphs, PART):
        end = min(begin + PART, size.graphs)
        path = folder / f"graphs-{begin:05}.npz"
        if path.exists():
            part = load_data(path)
            check_same(part, target, path)
            count = len(part.graphs) + part.left_out
            if part.seed != seed or count != end - begin:
                raise _other(path, f"it has {count} graphs of the seed {part.seed}")
        else:
            drawn = (collected_graph(target, size, seed, k) for k in range(begin, end))
            found = tuple(graph for graph in drawn if graph is not None)
            part = data_set.MappingData(
                learned, target.fabric, found, seed, end - begin - len(found)
            )
            save_data(path, part)
        graphs += part.graphs
        left_out += part.left_out
        tell(end, left_out)
    return data_set.MappingData(learned, target.fabric, tuple(graphs), seed, left_out)


def check_same(data: data_set.MappingData, target: MapsChips, path: Path) -> None:
    """Refuses data of another target; also of another size of fabric, on which sites differ.

    Raises:
        CompileError: MCM-M057.
    """
    learned = learned_of(target)
    if data.learned != learned:
        raise _other(path, f"{data.learned} are not {learned}")
    theirs = vars(data.fabric)
    for name, ours in vars(target.fabric).items():
        if name != "name" and not np.array_equal(theirs[name], ours):
            told = "" if isinstance(ours, np.ndarray) else f", {theirs[name]} and not {ours}"
            raise _other(path, f"{name} of their fabric is another one{told}")


def collected_graph(
    target: MapsChips, size: CollectionSize, seed: int, number: int
) -> data_set.MeasuredGraph | None:
    """One block with its measurements; None where it cannot be measured.

    Raises:
        CompileError: MCM-M056 where the simulator measures what cannot be, MCM-M061 where no block
            that was drawn fits.
    """
    rng = seeded_generator(seed, f"graph {number} of a collection")
    family, problem = _drawn(target, size, number, rng)
    return collected_block(target, size, family, problem, rng)


def collected_block(
    target: MapsChips,
    size: CollectionSize,
    family: str,
    problem: MappingProblem,
    rng: np.random.Generator,
) -> data_set.MeasuredGraph | None:
    """A block that is there, with mappings as a collection has them; None as `measured`.

    Raises:
        CompileError: MCM-M056 where the simulator measures what cannot be.
    """
    fabric = target.fabric
    drawn = random_mappings(problem, fabric, size.drawn, rng)
    searched = [
        _searched(problem, fabric, target.mapping_judge(), rng) for _ in range(size.searched)
    ]
    origin = np.array([data_set.RANDOM] * size.drawn + [data_set.FORMULA] * size.searched, np.int32)
    mappings = Mappings.stacked([drawn, *searched])
    return measured(target, family, problem, mappings, origin)


def measured(
    target: MapsChips, family: str, problem: MappingProblem, mappings: Mappings, origin: np.ndarray
) -> data_set.MeasuredGraph | None:
    """Mappings with what the simulator says of them.

    Returns:
        None where of some mapping no sample ends as long as the simulation, so that it says of its
        period that it is infinite.

    Raises:
        CompileError: MCM-M056 where what it says cannot be.
    """
    judge = target.mapping_judge(MOST_HOPS)
    found: list[Measurements] = []
    # One by one, as plays that come to nothing take longest.
    for k in range(len(mappings)):
        found.append(judge.measure(problem, target.fabric, mappings[k]))
        if np.isposinf(found[-1].period_cycles).any():
            return None
    graph = data_set.MeasuredGraph(
        family,
        problem,
        judge.bound_cycles(problem, target.fabric),
        mappings,
        np.concatenate([one.period_cycles for one in found]),
        np.concatenate([one.latency_cycles for one in found]),
        np.concatenate([one.error for one in found]),
        origin,
    )
    faults = data_set.faults_of_data(target.fabric, [graph])
    if faults:
        raise CompileError.of(
            "MCM-M056",
            f"nothing can be learned from what the judge measured: {faults[0]}",
            at=quote(problem.name),
        )
    return graph


def _drawn(
    target: MapsChips, size: CollectionSize, number: int, rng: np.random.Generator
) -> tuple[str, MappingProblem]:
    """Families take turns."""
    family, why = FAMILIES[number % len(FAMILIES)], ""
    for _ in range(ATTEMPTS):
        block = random_block(family, rng, size.units)
        choice = UnitChoice(block.compute_units, int(rng.integers(2**31)))
        try:
            problem = target.mapping_problem(block.model, choice)
        except CompileError as error:
            why = error.diagnostics[0].message
            continue
        why = _unsuitable(target, size, problem, number, rng)
        if not why:
            return family, problem
    raise CompileError.of(
        "MCM-M061",
        f"none of {ATTEMPTS} blocks of the family {family} can be measured: {quote(why)}",
        at=quote(target.fabric.name),
        hint="collect with fewer units, longer blocks or less contrast, or for a larger fabric",
    )


def _unsuitable(
    target: MapsChips,
    size: CollectionSize,
    problem: MappingProblem,
    number: int,
    rng: np.random.Generator,
) -> str:
    """Why a problem is none to measure; empty for those that are."""
    if problem.num_units < size.fewest:
        return f"it has {problem.num_units} units, fewer than {size.fewest}"
    bound = target.mapping_judge().bound_cycles(problem, target.fabric)
    if bound > size.longest:
        return f"its bound is {bound:g} cycles, beyond {size.longest}"
    if number % UNSELECTED == 0:
        return ""
    formula = RoundTrips().prepared(problem, target.fabric)
    drawn = random_mappings(problem, target.fabric, _LOOKED_AT, rng)
    contrast = float(formula.period_cycles(drawn).mean()) / bound
    return "" if contrast >= size.contrast else f"its random mappings take {contrast:.3f} bounds"


def _searched(
    problem: MappingProblem, fabric: Fabric, judge: MappingJudge, rng: np.random.Generator
) -> Mappings:
    """Mappings that a search by some formula finds, after few evaluations or many."""
    model = MODELS[int(rng.integers(len(MODELS)))].prepared(problem, fabric)
    evaluations = int(math.exp(rng.uniform(math.log(_FEWEST), math.log(_MOST))))
    seed = int(rng.integers(2**31))
    request = MapperRequest(
        problem, fabric, model, judge, measurements=0, evaluations=evaluations, seed=seed
    )
    return Annealing(chains=2).map(request).mapping


def _other(path: Path, why: str) -> CompileError:
    return CompileError.of(
        "MCM-M057", f"the data are of another collection: {quote(why)}", at=quote(str(path))
    )
