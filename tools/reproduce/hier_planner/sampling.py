"""Groups of many ops drawn from the Grouper's scores, and sums that its gradient is made of.

At 85,000 units and 180 groups scores are 15 million numbers, so that none of them is kept: one pass
makes the scores of a unit, draws its group in all samples by the inverse distribution function, and
adds to sums that are as small as the Grouper's weights. The gradient with respect to scores is
linear in what samples turn out to be worth, and the Grouper is linear in what it reads, so that the
gradient with respect to what each input adds to scores follows from these sums alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.arrays.types import Floats, Ints

Singles = npt.NDArray[np.float32]

_LANES: Final = 16
"""Numbers that loops go over together; rows are filled up to a multiple."""

_BLOCK: Final = 256
"""Units after which sums in single precision are added to those in double precision."""

_LEAST: Final = np.float32(-87.0)
"""Exponents below give 0: their powers are no normal numbers in single precision."""

_LOG2_E: Final = np.float32(1.44269504088896341)
_LN2_HIGH: Final = np.float32(0.693359375)
_LN2_LOW: Final = np.float32(-2.12194440e-4)
_ROUND: Final = np.float32(12582912.0)
"""1.5 times 2 to the 23: added to a small number, its last bits are the nearest integer."""
_ROUND_BITS: Final = np.int32(0x4B400000)

# Of exp between -ln(2)/2 and ln(2)/2 (Moshier, Cephes, `expf`).
_C0: Final = np.float32(1.9875691500e-4)
_C1: Final = np.float32(1.3981999507e-3)
_C2: Final = np.float32(8.3334519073e-3)
_C3: Final = np.float32(4.1665795894e-2)
_C4: Final = np.float32(1.6666665459e-1)
_C5: Final = np.float32(5.0000001201e-1)


@dataclass(frozen=True, eq=False)
class UnitInputs:
    """What the Grouper reads of U units: a type, and F values.

    Attributes:
        unit_type: `[U]`, below T.
        values: `[U, F]`.
        moments: `[T + F, T + F]`, sums over units of products of inputs, types as ones and zeros.
    """

    unit_type: Ints
    values: Singles
    moments: Floats

    @classmethod
    def of(cls, unit_type: Ints, values: Singles, types: int) -> UnitInputs:
        """Of units with one of so many types."""
        exact = values.astype(np.float64)
        among = np.zeros((types, values.shape[1]))
        np.add.at(among, unit_type, exact)
        counts = np.diag(np.bincount(unit_type, minlength=types).astype(np.float64))
        moments = np.block([[counts, among], [among.T, exact.T @ exact]])
        return cls(unit_type, np.ascontiguousarray(values), moments)

    def score_scale(self, adds: Singles) -> float:
        """Root mean square of all scores, from what inputs add to them `[T + F, M]`."""
        exact = adds.astype(np.float64)
        squares = np.sum(exact * (self.moments @ exact))
        return float(np.sqrt(np.maximum(squares, 0.0) / (len(self.unit_type) * adds.shape[1])))


@dataclass(frozen=True, eq=False)
class DrawnGroups:
    """K groupings of U units, and what the Grouper's gradient is made of.

    Attributes:
        chosen: `[K, U]`.
        entropy: mean of a unit, in nats.
        taken: `[K, T + F, M]`, sums over the units of each group of what they have as inputs.
        expected: `[T + F, M]`, the same over all units, times the group's probability.
        spread: `[T + F, M]`, the same times the gradient of minus the unit's entropy with respect
            to the group's score; zero where it was not asked for.
    """

    chosen: Ints
    entropy: float
    taken: Floats
    expected: Floats
    spread: Floats

    def gradient(self, advantage: Floats, entropy: float) -> Singles:
        """`[T + F, M]`, of what is to grow, with respect to what inputs add to scores.

        That is the mean over samples of advantage times log-probability, summed over units, plus
        `entropy` times the sum of the entropies of units.

        Args:
            advantage: `[K]`.
            entropy: weight.
        """
        worth = advantage / len(advantage)
        found = np.tensordot(worth, self.taken, axes=1) - worth.sum() * self.expected
        return (found - entropy * self.spread).astype(np.float32)


def draw_groups(
    inputs: UnitInputs,
    adds: Singles,
    noise: Singles | None,
    level: float,
    uniforms: Singles,
    spread: bool,
) -> DrawnGroups:
    """Draws K groups for each of U units.

    Args:
        inputs: of the Grouper.
        adds: `[T + F, M]`, what inputs add to scores.
        noise: `[U, M]`, added to scores; None for none.
        level: what noise is multiplied by, in multiples of the root mean square of all scores.
        uniforms: `[U, K]`, from 0 up to 1.
        spread: whether the gradient will ask for entropies.
    """
    units, count = uniforms.shape
    rows, groups = adds.shape
    padded = np.zeros((rows, -(-groups // _LANES) * _LANES), np.float32)
    padded[:, :groups] = adds
    scale, extra = np.float32(0.0), np.empty((0, groups), np.float32)
    if noise is not None:
        scale, extra = np.float32(level * inputs.score_scale(adds)), noise
    sums = _Sums(
        chosen=np.empty((count, units), np.int32),
        taken=np.zeros((count, groups, rows)),
        expected=np.zeros(padded.shape),
        spread=np.zeros(padded.shape),
    )
    read = _Read(inputs.unit_type, inputs.values, padded, extra, scale)
    entropy = _draw(read, uniforms, spread, groups, sums) / units
    taken = sums.taken.transpose(0, 2, 1)
    return DrawnGroups(
        sums.chosen, entropy, taken, sums.expected[:, :groups], sums.spread[:, :groups]
    )


class _Read(NamedTuple):
    """What a draw reads; rows of `adds` are filled up."""

    unit_type: Ints
    values: Singles
    adds: Singles
    noise: Singles
    scale: np.float32


class _Sums(NamedTuple):
    """What a draw writes, as `DrawnGroups` has it, but for rows, which are filled up.

    `taken` is `[K, M, T + F]`.
    """

    chosen: Ints
    taken: Floats
    expected: Floats
    spread: Floats


class _Row(NamedTuple):
    """Scratch for the scores of a unit.

    Attributes:
        scores: `[M]`, filled up.
        powers: `[M]`, of scores.
        shifted: `[M]`, for powers.
        bits: the same memory as integers.
        blocks: sums of as many powers as there are lanes.
    """

    scores: Singles
    powers: Singles
    shifted: Singles
    bits: Ints
    blocks: Singles


@entry_njit
def _draw(read: _Read, uniforms: Singles, spread: bool, groups: int, sums: _Sums) -> float:
    """The pass over units. Returns the sum of entropies."""
    padded = read.adds.shape[1]
    shifted = np.empty(padded, np.float32)
    row = _Row(
        np.empty(padded, np.float32),
        np.empty(padded, np.float32),
        shifted,
        shifted.view(np.int32),
        np.empty(padded // _LANES, np.float32),
    )
    expected = np.zeros(read.adds.shape, np.float32)
    spreads = np.zeros(read.adds.shape, np.float32)
    scores, powers = row.scores, row.powers
    units, entropies = len(read.unit_type), 0.0
    for u in range(units):
        _score(read, u, groups, scores)
        whole, weighted = _raise(row, groups)
        mean = weighted / whole
        entropies += np.log(whole) - mean
        for k in range(uniforms.shape[1]):
            sums.chosen[k, u] = _found(row, uniforms[u, k], groups)
            _take(read, u, sums.taken[k, sums.chosen[k, u]])
        share = np.float32(1.0) / whole
        for m in range(padded):
            powers[m] *= share
        _add(read, u, powers, expected)
        if spread:
            # d(-entropy)/d(score) = p (log p - sum of p log p); what is subtracted from scores to
            # have logarithms cancels.
            for m in range(padded):
                powers[m] *= scores[m] - mean if powers[m] > 0.0 else np.float32(0.0)
            _add(read, u, powers, spreads)
        if u % _BLOCK == _BLOCK - 1 or u == units - 1:
            _flush(expected, sums.expected)
            if spread:
                _flush(spreads, sums.spread)
    return entropies


@lean_inner_njit
def _score(read: _Read, u: int, groups: int, scores: Singles) -> None:
    """The scores of a unit with their noise; what fills them up is not set."""
    types = len(read.adds) - read.values.shape[1]
    kind = read.unit_type[u]
    for m in range(len(scores)):
        scores[m] = read.adds[kind, m]
    for c in range(read.values.shape[1]):
        value = read.values[u, c]
        if value != 0.0:
            for m in range(len(scores)):
                scores[m] += value * read.adds[types + c, m]
    if len(read.noise):
        for m in range(groups):
            scores[m] += read.scale * read.noise[u, m]


@lean_inner_njit
def _raise(row: _Row, groups: int) -> tuple[np.float32, np.float32]:
    """Powers of scores minus the largest score, and 0 for what fills the row up.

    The largest score is taken from `scores`, too.

    Returns:
        The sum of powers, not a number where scores are none, and that of powers times what they
        are powers to.
    """
    scores, powers, shifted, bits, blocks = row
    for m in range(groups, len(scores)):
        scores[m] = scores[0]
    most = _largest(scores, shifted)
    for m in range(len(scores)):
        scores[m] -= most
        shifted[m] = max(scores[m], _LEAST) * _LOG2_E + _ROUND
    for m in range(len(scores)):
        x = max(scores[m], _LEAST)
        n = shifted[m] - _ROUND
        x = (x - n * _LN2_HIGH) - n * _LN2_LOW
        y = ((((_C0 * x + _C1) * x + _C2) * x + _C3) * x + _C4) * x + _C5
        powers[m] = y * (x * x) + x + np.float32(1.0)
    for m in range(len(scores)):
        bits[m] = ((bits[m] - _ROUND_BITS) + np.int32(127)) << np.int32(23)
    for m in range(len(scores)):
        powers[m] = powers[m] * shifted[m] if scores[m] >= _LEAST else np.float32(0.0)
    for m in range(groups, len(scores)):
        powers[m] = 0.0
    whole = weighted = np.float32(0.0)
    for b in range(len(blocks)):
        one = other = np.float32(0.0)
        for m in range(b * _LANES, (b + 1) * _LANES):
            one += powers[m]
            other += powers[m] * scores[m]
        blocks[b] = one
        whole += one
        weighted += other
    if not whole > 0.0:
        whole = np.float32(np.nan)
    return whole, weighted


@lean_inner_njit
def _largest(scores: Singles, lanes: Singles) -> np.float32:
    """The largest of a row; `lanes` is scratch."""
    for lane in range(_LANES):
        lanes[lane] = scores[lane]
    for begin in range(_LANES, len(scores), _LANES):
        for lane in range(_LANES):
            lanes[lane] = max(lanes[lane], scores[begin + lane])
    most = lanes[0]
    for lane in range(1, _LANES):
        most = max(most, lanes[lane])
    return most


@lean_inner_njit
def _found(row: _Row, uniform: np.float32, groups: int) -> int:
    """Where the sum of powers first exceeds a share of their whole."""
    powers, blocks = row.powers, row.blocks
    whole = np.float32(0.0)
    for b in range(len(blocks)):
        whole += blocks[b]
    left = uniform * whole
    # Sums of blocks and of what is in them are rounded differently: where nothing exceeds what is
    # left, it is the last with a chance.
    block, before = 0, np.float32(0.0)
    for b in range(len(blocks)):
        if blocks[b] > 0.0:
            left -= before
            block, before = b, blocks[b]
            if left < before:
                break
    found = block * _LANES
    for m in range(block * _LANES, min((block + 1) * _LANES, groups)):
        if powers[m] > 0.0:
            found = m
            if left < powers[m]:
                break
            left -= powers[m]
    return found


@lean_inner_njit
def _take(read: _Read, u: int, taken: Floats) -> None:
    """Adds a unit's inputs to those of its group `[T + F]`."""
    columns = read.values.shape[1]
    types = len(taken) - columns
    taken[read.unit_type[u]] += 1.0
    for c in range(columns):
        taken[types + c] += read.values[u, c]


@lean_inner_njit
def _add(read: _Read, u: int, row: Singles, sums: Singles) -> None:
    """Adds a row times each input of a unit."""
    columns = read.values.shape[1]
    types = len(sums) - columns
    kind = read.unit_type[u]
    for m in range(len(row)):
        sums[kind, m] += row[m]
    for c in range(columns):
        value = read.values[u, c]
        if value != 0.0:
            for m in range(len(row)):
                sums[types + c, m] += value * row[m]


@lean_inner_njit
def _flush(recent: Singles, sums: Floats) -> None:
    """Moves sums in single precision to those in double precision."""
    for r in range(len(sums)):
        for m in range(sums.shape[1]):
            sums[r, m] += recent[r, m]
            recent[r, m] = 0.0
