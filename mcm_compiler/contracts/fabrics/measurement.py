"""The contract of flit simulators: the execution of a mapped fabric, cycle by cycle, and its speed.

This defines the execution, so that two simulators agree to the cycle. Flits are single: each finds
its route by itself, and nothing reserves a path for several. A cycle has four parts, in this order:

1. *Arrivals.* A flit that left a switch `hop_cycles` ago arrives: in the FIFO after a link, or
   unread at its destination unit. A credit is back at its source `hop_cycles` for each link between
   the two switches, and `hop_cycles` more, after its flit was read.
2. *Units* work, all on the state at the beginning of this part:

   - *Compute units.* A sample has F firings. Firing k (from 0) reads flits of each incoming stream
     at its start: of a stream with f flits, until it has `ceil((k + 1) f / F)` of that sample. It
     starts as soon as these are there, the last firing has ended, and no due flit waits. It takes
     `cycles`, and makes `floor((k + 1) f / F) - floor(k f / F)` flits of each outgoing stream.
     These are due when firing k is the last of a burst (`k + 1` a multiple of it) or of the sample.
     Due flits go to the output register of their stream as far as it has space, when a firing ends
     and in each cycle from then on, before the next firing starts.
   - *Memory units between stages* write a flit per cycle, of a stream with an unread one: one of
     sample n only when all outgoing streams have read sample n - `depth`. They read a flit per
     cycle, into an output register with space, and one of sample n only when all incoming streams
     have written all of it. Flit i of a stream in sample n is in bank `(i + n) mod banks`; nothing
     is read from the bank that is written in the same cycle.
   - *Memory units with weights* read a flit per cycle, into an output register with space.
   - *Memory channels* bring in or take out a flit per cycle. They bring it into the output register
     of an outgoing stream of one of their I/O units, if it has space, or take an unread flit out.
   - If several streams could be served, they take turns: in the order of their numbers, outgoing
     before incoming ones, of a channel unit by unit, starting after the last served.
3. *Ports.* A unit whose port is free puts a flit there, of a stream with one in its output
   register and a credit from each destination: credits are missing for fewer than `window_flits`
   of the stream. Streams take turns, too. Incoming flits always have space, by the credits.
4. *Switches.* Each outgoing link of a switch, and each of its sites, takes one of the flits that
   are first at an input, have to go there and have not gone. A link does so only if the FIFO after
   it, of the virtual channel that is the flit's `turn`, holds and expects fewer than `fifo_flits`.
   Inputs are the incoming links, by number, of each virtual channel 0 before 1, then the ports of
   its sites, by number; they take turns for each output. A flit for several outputs leaves its
   input when it has gone to all of them, at the end of the cycle.

A sample has ended in the cycle in which the last unit without outgoing streams has read all of it
(a compute unit: ended its last firing). The first cycle is 0; the latency is the number of the
cycle in which the first sample ends, plus one.

A mapping has no deadlock. Flits in the mesh always find space at their destination, and paths of
one virtual channel cannot wait for each other in a circle. Legal problems have memory units with
space for a sample between all stages.

The *period* is the time per sample in the steady state of the fabric. It is exact if a repeating
state was found; otherwise it has an error bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings


@dataclass(frozen=True, eq=False)
class Measurements:
    """Of B mappings.

    Attributes:
        period_cycles: `[B]`, cycles per sample.
        latency_cycles: `[B]`, from the start of the first sample until it has left.
        error: `[B]`, by which share the period may be wrong; 0 where a state repeats.
    """

    period_cycles: Floats
    latency_cycles: Floats
    error: Floats


class MappingJudge(Protocol):
    """Measures mappings. Pure and deterministic, and no mapping model knows it."""

    @property
    def name(self) -> str: ...

    @property
    def physics(self) -> str:
        """A hash of all inputs of measurements besides fabric, problem and mapping.

        Labels carry it: a model is not used for a simulator that it has not learned from.
        """
        ...

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        """Lower bound on the period of all mappings: the load of the busiest unit or port."""
        ...

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        """Plays each mapping until its state repeats.

        Raises:
            ValueError: for a mapping that `legality` refuses.
        """
        ...
