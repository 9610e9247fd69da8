"""Random small models on random ring packages, on which all models of a ring must agree."""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import Machine
from tests.generators.objective_problems import random_energies
from tests.oracles.real_road import PackageOptions, Road, parse

WIDTHS = (8, 24, 200, 1000)


def random_text(rng: np.random.Generator, most_ops: int) -> str:
    """A graph of up to so many ops on rows of different widths, with several ends."""
    count = int(rng.integers(2, most_ops + 1))
    width: dict[str, int] = {}
    for k in range(int(rng.integers(1, 4))):
        width[f"x{k}"] = int(rng.choice(WIDTHS))
    heads = [f"float[1,{w}] {name}" for name, w in width.items()]
    lines, read = [], set[str]()
    for k in range(count):
        names = list(width)
        # Late values more often, so that graphs are deep as well as wide.
        a = names[-1 - min(int(rng.geometric(0.4)) - 1, len(names) - 1)]
        b = names[int(rng.integers(len(names)))]
        kind = rng.choice(["MatMul", "Relu", "Concat", "Reshape"], p=[0.4, 0.25, 0.25, 0.1])
        read |= {a, b} if kind == "Concat" else {a}
        made = width[a]
        if kind == "MatMul":
            made = int(rng.choice(WIDTHS))
            heads.append(f"float[{width[a]},{made}] w_{k}")
            lines.append(f"t{k} = MatMul({a}, w_{k})")
        elif kind == "Concat":
            made = width[a] + width[b]
            lines.append(f"t{k} = Concat<axis = 1>({a}, {b})")
        elif kind == "Reshape":
            lines.append(f"s{k} = Constant<value_ints = [1, {made}]>()")
            lines.append(f"t{k} = Reshape({a}, s{k})")
        else:
            lines.append(f"t{k} = Relu({a})")
        width[f"t{k}"] = made
    ends = [f"t{k}" for k in range(count) if f"t{k}" not in read or rng.random() < 0.15]
    outputs = ", ".join(f"float[1,{width[name]}] {name}" for name in ends)
    return f"g ({', '.join(heads)}) => ({outputs}) {{ {' '.join(lines)} }}"


def random_package(rng: np.random.Generator) -> PackageOptions:
    """A ring of up to five chips, of which some may be off, with or without shared channels."""
    chips, ends = int(rng.integers(1, 6)), bool(rng.random() < 0.5)
    off = sorted({int(c) for c in rng.integers(0, chips, int(rng.integers(0, 3)))})
    off = off if len(off) < chips and rng.random() < 0.5 else []
    router = not ends and rng.random() < 0.25
    return PackageOptions(
        chips=chips,
        host_io="ends" if ends else "any",
        switching=str(rng.choice(["", "cut_through"])),
        root_gb_per_s=float(rng.choice([0.5, 4.0])) if rng.random() < 0.4 else None,
        forwarding="router" if router else "",
        more=f"\n[[override]]\nchips = {off}\noff = true\n" if off else "",
    )


@dataclasses.dataclass(frozen=True)
class RingCase:
    """A model on a package, with its problem.

    Attributes:
        road: from a placement to the lowered program.
        machine: the package.
        problem: of the model, at need and with energies, as bounds take it.
        text: of the model.
        routing: the rule for long dependencies.
    """

    road: Road
    machine: Machine
    problem: PartitionProblem
    text: str
    routing: str


def ring_case(seed: int, most_ops: int = 5) -> RingCase:
    """The case of a seed."""
    rng = np.random.default_rng(seed)
    text, package = random_text(rng, most_ops), random_package(rng)
    routing = "strict" if rng.random() < 0.3 else "relay"
    target = package.target()
    road = Road(parse(text), target, routing=routing, groups=(), clones=bool(rng.random() < 0.5))
    problem = road.problem.at_need()
    problem = dataclasses.replace(problem, energy=random_energies(problem, rng))
    return RingCase(road, target.machine, problem, text, routing)


def random_placement(case: RingCase, rng: np.random.Generator) -> list[int]:
    """Contiguous in the order of units; now and then broken."""
    units = case.problem.num_units
    used = int(rng.integers(1, min(case.problem.num_chips, units) + 1))
    cuts = np.sort(rng.choice(np.arange(1, units), used - 1, replace=False)) if units > 1 else []
    return np.searchsorted(cuts, np.arange(units), side="right").astype(int).tolist()
