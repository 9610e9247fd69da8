"""The result of an exploration as data with a published schema.

`docs/reference/schema/exploration.schema.json` is rendered from these records.
"""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import Literal, TypedDict

from mcm_compiler.results.points import FaultRow, PointFacts
from mcm_compiler.text.bounded_numbers import Index, Seed

Measure = Literal["throughput", "latency", "chips", "sram", "area", "energy"]

SweptKey = TypedDict("SweptKey", {"key": str, "values": list[bool | float | str]})
"""A key that was swept.

Attributes:
    key: dotted, of the target's description.
    values: in the order given.
"""


class ExploredPoint(PointFacts):
    """A combination of values, and what the model comes to there.

    Attributes:
        settings: value of each swept key.
        front: whether no other point of the model is as good in all measures and better in one.
        same_as: position of an earlier point whose target has the same content, so that it was
            compiled once; null for others.
    """

    settings: dict[str, bool | float | str]
    front: bool
    same_as: Index | None


ExploredModel = TypedDict(
    "ExploredModel",
    {
        "name": str,
        "sha256": str | None,
        "measures": list[Measure],
        "points": list[ExploredPoint],
        "faults": list[FaultRow],
    },
)
"""A model on all combinations.

Attributes:
    name: file name of the model, or zoo:NAME.
    sha256: hash of the model and its external data; null where it could not be read.
    measures: what its front is of.
    points: in the order of the sweeps, the last of which runs fastest; empty where the model could
        not be read.
    faults: why it could not be read.
"""

ExploredTarget = TypedDict("ExploredTarget", {"name": str, "sha256": str})
"""The target that the combinations change.

Attributes:
    sha256: of its description.
"""

Exploration = TypedDict(
    "Exploration",
    {
        "schema_version": Literal[1],
        "target": ExploredTarget,
        "sweeps": list[SweptKey],
        "pipeline": str,
        "level": int | str,
        "partitioner": str,
        "seed": Seed,
        "models": list[ExploredModel],
        "versions": dict[str, str | None],
    },
)
"""What `mcmc explore` found. Equal requests and versions give equal bytes.

Attributes:
    schema_version: version of this schema.
    target: what was changed.
    sweeps: in the order given.
    pipeline: passes of each compile; those that write or verify did not run.
    level: effort of the search.
    partitioner: partition strategy that was asked for; auto for that of the level.
    seed: of everything random.
    models: in the order given.
    versions: versions of the distributions that decide the result, and of Python.
"""
