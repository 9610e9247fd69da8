"""Small partitioning problems: as they are written down, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits, Routing
from mcm_compiler.machines.kind_costs import ViewCopies
from mcm_compiler.machines.package_limits import Forwarding, HostIo


@dataclass(frozen=True)
class Choices:
    """What `make_problem` fills in where a test does not care; rates are per second."""

    chips: int = 3
    routing: Routing = "relay"
    host_io: HostIo = "any"
    clonable: Sequence[int] = ()
    weights: Sequence[tuple[int, Sequence[int]]] = ()
    """Bytes and users of each."""
    sram: int | tuple[int, ...] = 1 << 20
    """Bytes of all chips, or of each."""
    tensor_bytes: int | Callable[[int], int] = 100
    """Of all tensors, or of each by its index."""
    relay_us: float = 0.5
    copies: Sequence[tuple[int, int, float]] = ()
    """Units that make views, those that write their memory (or -1), and microseconds."""
    pins: Sequence[tuple[int, int]] = ()
    """Units and their chips."""
    link: float = 1e9
    speeds: Sequence[float] = ()
    stream: float = 0.0
    host_root: float = 0.0
    stream_root: float = 0.0
    forwarding: Forwarding = "engine"

    def limits(self) -> PackageLimits:
        srams = self.sram if isinstance(self.sram, tuple) else (self.sram,) * self.chips
        return PackageLimits(
            self.chips,
            srams,
            self.link,
            1e-6,
            self.host_io,
            1e9,
            chip_speed=tuple(self.speeds),
            stream_bytes_per_s=self.stream,
            host_total_bytes_per_s=self.host_root,
            stream_total_bytes_per_s=self.stream_root,
            forwarding=self.forwarding,
        )


def make_problem(compute_us, edges, **choices):
    """One output tensor per unit; units without producers read a graph input each.

    `choices` are fields of `Choices`.
    """
    chosen = Choices(**choices)
    weights = chosen.weights
    n = len(compute_us)
    readers: list[set[int]] = [set() for _ in range(n)]
    for u, v in edges:
        readers[u].add(v)
    consumers = [sorted(mine) for mine in readers]
    reads = {v for _, v in edges}
    names, producer, to_host, rows = [], [], [], []
    for u in range(n):
        if u not in reads:
            names.append(f"in{u}")
            producer.append(-1)
            to_host.append(False)
            rows.append([u])
    for u in range(n):
        names.append(f"t{u}")
        producer.append(u)
        to_host.append(not consumers[u])
        rows.append(consumers[u])
    size = chosen.tensor_bytes
    sizes = [size(i) if callable(size) else size for i in range(len(rows))]
    pinned = np.full(n, -1, dtype=np.int32)
    for u, c in chosen.pins:
        pinned[u] = c
    views = sorted((names.index(f"t{u}"), writer, us) for u, writer, us in chosen.copies)
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=np.array(compute_us, dtype=np.float64) * 1e-6,
        clonable=np.isin(np.arange(n), list(chosen.clonable)),
        pinned_chip=pinned,
        tensor_names=tuple(names),
        tensor_bytes=np.array(sizes, dtype=np.int64),
        tensor_producer=np.array(producer, dtype=np.int32),
        tensor_ptr=np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        tensor_consumers=np.array([v for r in rows for v in r], dtype=np.int32),
        tensor_to_host=np.array(to_host),
        relay_s=np.full(len(rows), chosen.relay_us * 1e-6),
        weight_names=tuple(f"w{i}" for i in range(len(weights))),
        weight_bytes=np.array([size for size, _ in weights], dtype=np.int64),
        weight_ptr=np.concatenate([[0], np.cumsum([len(us) for _, us in weights])]).astype(
            np.int64
        ),
        weight_users=np.array([u for _, us in weights for u in us], dtype=np.int32),
        limits=chosen.limits(),
        routing=chosen.routing,
        copies=ViewCopies(
            np.array([t for t, _, _ in views], np.int32),
            np.array([writer for _, writer, _ in views], np.int32),
            np.array([us * 1e-6 for _, _, us in views], np.float64),
        )
        if views
        else None,
    )


def draw_copies(draw, edges, count, clonable):
    """Views of the memory of what a unit reads, or of a graph input or weight."""
    fixed = [u for u in range(count) if u not in clonable]
    copies = []
    for u in draw(st.sets(st.sampled_from(fixed), max_size=3)) if fixed else ():
        above = [s for s, v in edges if v == u and s in fixed]
        copies.append((u, draw(st.sampled_from([-1, *above])), draw(st.sampled_from([0.2, 4.0]))))
    return copies


@st.composite
def problems(draw, max_units=6, chain=False):
    n = draw(st.integers(1, max_units))
    compute = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    if chain:
        edges = [(u, u + 1) for u in range(n - 1)]
    else:
        edges = [(u, v) for v in range(n) for u in range(v) if draw(st.integers(0, 2)) == 0]
    # A source with at least two readers, none of which is clonable itself.
    clonable = []
    if not chain and draw(st.booleans()):
        first = [v for u, v in edges if u == 0]
        clonable = [0] if len(first) >= 2 else []
    weights = [
        (
            draw(st.integers(1, 900)),
            sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    sizes = draw(st.lists(st.sampled_from([64, 1000, 9000]), min_size=2 * n, max_size=2 * n))
    chips = draw(st.integers(1, 4))
    speed = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=chips, max_size=chips)
    host_io = draw(st.sampled_from(["any", "ends"]))
    return make_problem(
        compute,
        edges,
        chips=chips,
        speeds=draw(st.just([]) | speed),
        stream=draw(st.sampled_from([0.0, 0.0, 1e8, 1e9])),
        routing="relay" if chain else draw(st.sampled_from(["relay", "strict"])),
        host_io=host_io,
        forwarding=draw(st.sampled_from(["engine", "router"])) if host_io == "any" else "engine",
        clonable=clonable,
        weights=weights,
        sram=draw(st.sampled_from([2000, 40_000, 1 << 20])),
        tensor_bytes=lambda i: sizes[i],
        relay_us=draw(st.sampled_from([0.1, 3.0])),
        copies=draw_copies(draw, edges, n, clonable),
        host_root=draw(st.sampled_from([0.0, 0.0, 2e8, 2e9])),
        stream_root=draw(st.sampled_from([0.0, 0.0, 1e8])),
    )


@st.composite
def connected_problems(draw, max_units=7):
    """Connected graphs on three chips, with everything that a problem can have."""
    n = draw(st.integers(1, max_units))
    compute = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, n)}
    edges |= {(u, v) for v in range(n) for u in range(v) if draw(st.integers(0, 4)) == 0}
    readers = [v for u, v in edges if u == 0]
    clonable = [0] if len(readers) >= 2 and draw(st.booleans()) else []
    weights = [
        (
            draw(st.integers(1, 900)),
            sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    sizes = draw(st.lists(st.sampled_from([64, 1000, 9000]), min_size=2 * n, max_size=2 * n))
    fixed = [u for u in range(n) if u not in clonable]
    host_io = draw(st.sampled_from(["any", "ends"]))
    pins = draw(st.just([]) | st.lists(st.tuples(st.sampled_from(fixed), st.integers(0, 2))))
    return make_problem(
        compute,
        sorted(edges),
        chips=3,
        speeds=draw(st.sampled_from([(), (), (1.0, 2.0, 0.5)])),
        stream=draw(st.sampled_from([0.0, 0.0, 1e8])),
        routing=draw(st.sampled_from(["relay", "strict"])),
        host_io=host_io,
        forwarding=draw(st.sampled_from(["engine", "router"])) if host_io == "any" else "engine",
        clonable=clonable,
        weights=weights,
        sram=draw(st.sampled_from([2000, 40_000, (4000, 40_000, 1 << 20), 1 << 20])),
        tensor_bytes=lambda i: sizes[i],
        relay_us=draw(st.sampled_from([0.1, 3.0])),
        copies=draw_copies(draw, edges, n, clonable),
        pins=pins,
        host_root=draw(st.sampled_from([0.0, 0.0, 2e8, 2e9])),
        stream_root=draw(st.sampled_from([0.0, 0.0, 5e7])),
    )


def forward_placement(problem, random):
    """Chips whose order is that of the units, so that all dependencies point forwards."""
    chips = sorted(random.randrange(problem.num_chips) for _ in range(problem.num_units))
    return np.array(chips, np.int32)
