"""The contract of judges: what a mapped fabric does, cycle by cycle, and how fast that is.

What happens, so that two judges agree to the cycle. Flits are single: each finds its way by
itself, and nothing holds a path for several. A cycle has four parts, in this order:

1. *Arrivals.* What left a switch `hop_cycles` ago is there: in the FIFO behind a link, or unread
   at the unit that it goes to. A credit is back at its source `hop_cycles` for each link between
   the two switches, and `hop_cycles` more, after its flit was read.
2. *Units* work, all on what was there when the part began:

   - *Compute units.* Of a sample with F firings, firing k (from 0) reads, at its start, so many
     flits of each stream with f flits that comes in that it has `ceil((k + 1) f / F)` of that
     sample. It starts as soon as these are there, the last has ended, and nothing that is due
     waits; it takes `cycles`, and makes `floor((k + 1) f / F) - floor(k f / F)` flits of each
     stream that leaves. What was made is due when firing k is the last of a burst (`k + 1` a
     multiple of it) or of the sample. What is due goes to the output register of its stream as
     far as there is room, when a firing ends and in each cycle from then on, before the next one
     starts.
   - *Memory units between stages* write a flit per cycle, of a stream of which one lies unread:
     one of sample n only when sample n - `depth` has been read by all streams that leave. They
     read a flit per cycle, into an output register with room: one of sample n only when all
     streams that come in have written all of it. Flit i of a stream in sample n lies in bank
     `(i + n) mod banks`; nothing is read from the bank that is written in the same cycle.
   - *Memory units with weights* read a flit per cycle, into an output register with room.
   - *Memory channels* bring in or take out a flit per cycle: into the output register, if there
     is room, of a stream that leaves one of their I/O units, or one that lies unread there.
   - Where several streams could be served, they take turns: in the order of their numbers, those
     that leave before those that come in, of a channel unit by unit, from behind the last served.
3. *Ports.* A unit whose port is free puts a flit there, of a stream with one in its output
   register and a credit from each destination: fewer than `window_flits` of the stream for which
   credits are not back. They take turns, too. What comes in needs no room: credits see to that.
4. *Switches.* Each link that leaves a switch, and each of its sites, takes one of the flits that
   are first at an input, have to go there and have not gone: a link only if the FIFO behind it,
   of the virtual channel that is the flit's `turn`, holds and expects fewer than `fifo_flits`.
   Inputs are the links that lead there, by number, of each virtual channel 0 before 1, then the
   ports of its sites, by number; they take turns for each output. A flit that goes several ways
   leaves its input when it has gone all of them, at the end of the cycle.

A sample has ended in the cycle in which the last unit without streams that leave has read all of
it (a compute unit: ended its last firing). The first cycle is 0; the latency is the number of the
cycle in which the first sample ends, and one.

A mapping has no deadlock: what enters the mesh always finds room where it goes to, paths of one
virtual channel cannot wait for each other in a circle, and legal problems have memory units with
room for a sample between all stages.

The *period* is the time per sample in the state that the fabric comes to. It is exact where a
state was found that repeats; else it has an error bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.contracts.fabrics.problem import MappingProblem, Mappings


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
        """A hash of all that measurements depend on besides fabric, problem and mapping.

        Labels carry it: a model is not used for a judge that it has not learned from.
        """
        ...

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        """No mapping has a shorter period: the busiest unit or port, whatever lies where."""
        ...

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        """Plays each mapping until its state repeats.

        Raises:
            ValueError: for a mapping that `legality` refuses.
        """
        ...
