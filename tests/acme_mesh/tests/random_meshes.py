"""Small random problems on small random meshes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources

import numpy as np
from acme_mesh.package import MeshPackage

from mcm_compiler.contracts.partition import PartitionProblem
from tests.acme_mesh.tests.plain_mesh import Mesh

BLOCK = 64
"""Alignment of buffers; weights are multiples of it, so that nothing is rounded."""

SHAPES = ((1, 2), (2, 1), (1, 3), (2, 2))


@dataclass(frozen=True, eq=False)
class MeshCase:
    """A problem, and its mesh by hand."""

    problem: PartitionProblem
    mesh: Mesh
    seed: int


def mesh_package(rows: int, cols: int, link_gb_per_s: float = 32.0) -> MeshPackage:
    """The plug-in's mesh of 16 chips with other numbers."""
    text = resources.files("acme_mesh").joinpath("acme-mesh16.toml").read_text(encoding="utf-8")
    text = text.replace("rows = 4", f"rows = {rows}").replace("cols = 4", f"cols = {cols}")
    link = "[link]\nbandwidth_gb_per_s = "
    return MeshPackage.from_text("mesh", text.replace(f"{link}32", f"{link}{link_gb_per_s!r}"))


def mesh_case(
    seed: int, shape: tuple[int, int] | None = None, units: int | None = None
) -> MeshCase:
    """A problem with 2 to 5 units, tensors with several readers, and weights that two may share.

    Args:
        seed: of all numbers.
        shape: rows and columns; drawn where None.
        units: how many; drawn where None.
    """
    rng = np.random.default_rng(seed)
    rows, cols = shape or SHAPES[rng.integers(len(SHAPES))]
    link = float(rng.choice([0.5, 4.0, 32.0]))
    package = mesh_package(rows, cols, link)
    n = units or int(rng.integers(2, 6))
    makers, readers, sizes, to_host = [-1], [[0]], [int(rng.integers(1, 4000))], [False]
    for u in range(n):
        later = [v for v in range(u + 1, n) if rng.random() < 0.5]
        makers.append(u)
        readers.append(later)
        sizes.append(int(rng.integers(1, 40_000)))
        to_host.append(not later or bool(rng.random() < 0.1))
    weights = [sorted(set(rng.integers(0, n, 2).tolist())) for _ in range(n)]
    weight_bytes = rng.integers(1, 8, n) * BLOCK * 1000
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in readers])]).astype(np.int64)
    weight_ptr = np.concatenate([[0], np.cumsum([len(row) for row in weights])]).astype(np.int64)
    limits = package.limits
    if rng.random() < 0.5:
        least = int(weight_bytes.max())
        room = int(rng.integers(least, 2 * int(weight_bytes.sum()))) + 400_000
        limits = replace(limits, sram_bytes=(room,) * limits.num_chips)
    problem = PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=rng.uniform(0.1e-6, 3e-6, n),
        clonable=np.zeros(n, np.bool_),
        pinned_chip=np.full(n, -1, np.int32),
        tensor_names=tuple(f"t{t}" for t in range(len(makers))),
        tensor_bytes=np.array(sizes, np.int64),
        tensor_producer=np.array(makers, np.int32),
        tensor_ptr=ptr,
        tensor_consumers=np.array([u for row in readers for u in row], np.int32),
        tensor_to_host=np.array(to_host),
        relay_s=np.zeros(len(makers)),
        weight_names=tuple(f"w{w}" for w in range(n)),
        weight_bytes=weight_bytes.astype(np.int64),
        weight_ptr=weight_ptr,
        weight_users=np.array([u for row in weights for u in row], np.int32),
        limits=limits,
        routing="strict",
        given_machine=package.machine,
    )
    mesh = Mesh(rows, cols, 1.0 / (link * 1e9), 1.0 / limits.host_bytes_per_s)
    return MeshCase(problem, mesh, seed)
