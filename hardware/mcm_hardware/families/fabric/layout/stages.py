"""Stages: ops that run on units of their own, with what they read, hold and make."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

LEFT, RIGHT, SHARE, ALL = 0, 1, 2, 3
"""How the units of a stage read a value: as left operand of a product, the rows of each unit; as
right operand, its columns; each unit a share of its own; each unit all of it."""

INPUTS = 0
"""Number of the stage that holds the graph's inputs; those of ops follow."""

OUTSIDE = -1
"""In place of a stage: small inputs come from memory channels each time that a stage reads them."""


@dataclass
class Stage:
    """A stage, while ops are added to it.

    Attributes:
        name: of its first op.
        kind: index into `OP_KINDS`.
        macs: multiply-accumulates per sample.
        rows: of its largest product, within a head.
        cols: of its largest product.
        whole_rows: whether a unit makes whole rows, as a softmax behind a product needs them.
        lane_ops: operations of one lane per sample.
        out_elements: of the largest value that it makes.
        reads: elements by value and mode.
        weights: elements that are held and elements that are read per sample, by value and mode.
        makes: values, with their elements.
    """

    name: str
    kind: int
    macs: int = 0
    rows: int = 1
    cols: int = 1
    whole_rows: bool = False
    lane_ops: int = 0
    out_elements: int = 0
    reads: dict[tuple[ir.Value, int], int] = field(default_factory=dict[tuple[ir.Value, int], int])
    weights: dict[tuple[ir.Value, int], tuple[int, int]] = field(
        default_factory=dict[tuple[ir.Value, int], tuple[int, int]]
    )
    makes: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])


@dataclass(frozen=True)
class Read:
    """What a stage reads of what another one makes.

    Attributes:
        source: stage that makes it, `INPUTS` or `OUTSIDE`.
        mode: `LEFT`, `RIGHT`, `SHARE` or `ALL`.
        elements: of one reading.
    """

    source: int
    mode: int
    elements: int


@dataclass(frozen=True)
class Demand:
    """What a stage asks for, as numbers.

    Attributes:
        name: of its first op.
        kind: index into `OP_KINDS`.
        macs: multiply-accumulates per sample.
        rows: that can be divided over units.
        cols: that can be divided over units.
        whole_rows: columns are not divided.
        lane_ops: operations of one lane per sample.
        reads: from stages before it.
        weight_set: number of its set of weights, which stages may have in common, such as the
            steps of an unrolled recurrent layer; -1 where it has none.
        weights: elements that are held, by columns.
        weight_reads: elements of them that are read per tile of rows.
        tables: elements that are held, by share.
        table_reads: elements of them that are read.
        makes: elements that other stages read.
        leaves: elements of graph outputs among what it makes.
        kept: whether other stages read what it makes, so that memory units hold it.
        level: stages on the longest way here.
        depth: samples that memory units hold of what it makes.
    """

    name: str
    kind: int
    macs: int
    rows: int
    cols: int
    whole_rows: bool
    lane_ops: int
    reads: tuple[Read, ...]
    weight_set: int
    weights: int
    weight_reads: int
    tables: int
    table_reads: int
    makes: int
    leaves: int
    kept: bool
    level: int
    depth: int
