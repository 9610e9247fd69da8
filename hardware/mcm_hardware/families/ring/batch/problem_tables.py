"""Facts of a problem that a batch evaluator knows before it sees a partition, as arrays.

A model as compiled code walks through it: N units of K kernels of O ops, and V values. Kernels are
numbered unit by unit and ops kernel by kernel, so that each has a range of the next. Rows of
varying length are in CSR form: row i of `x` is `x[x_ptr[i]:x_ptr[i + 1]]`. The tables are small
tuples, because compiled code passes each array of a tuple as seven arguments.
"""

from __future__ import annotations

from typing import NamedTuple

from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs


class UnitTables(NamedTuple):
    """Units, and the dependencies between them that the rules of the ring speak of.

    Attributes:
        clone_row: `[N]`, counts clonable units from 0; -1 for all others.
        pinned_chip: `[N]`, as in `PartitionProblem`.
        kernel_ptr: `[N + 1]`, kernels of each unit.
        user_ptr: `[N + 1]`, units behind the copies of each unit.
        users: those units, as `PartitionProblem.clone_closure` has them.
        edge_source: `[E]`, unit that is read.
        edge_target: `[E]`, unit that reads.
    """

    clone_row: Ints
    pinned_chip: Ints
    kernel_ptr: Longs
    user_ptr: Longs
    users: Longs
    edge_source: Ints
    edge_target: Ints


class KernelTables(NamedTuple):
    """Kernels: fusion groups and single ops.

    Attributes:
        op_ptr: `[K + 1]`, ops of each kernel.
        seconds: `[K]`, on the reference chip.
        early: kernels of constant ops, in the order in which a chip runs them before all others.
        early_unit: the unit of each of these.
        is_early: `[K]`, which those are.
        option_ptr: `[K + 1]`, of `option_values`.
        option_values: values that leave a kernel on some chips and on others not: those of clones
            with several results.
        option_begin: `[K]`, where the times of such a kernel start in `option_s`, or -1.
        option_s: seconds on the reference chip, by the number whose bit i says whether option i
            of the kernel leaves.
    """

    op_ptr: Longs
    seconds: Floats
    early: Longs
    early_unit: Longs
    is_early: Bools
    option_ptr: Longs
    option_values: Longs
    option_begin: Longs
    option_s: Floats


class OpTables(NamedTuple):
    """Ops.

    Attributes:
        is_view: `[O]`, True where the first output is the first operand under another shape.
        copy_s: `[O]`, seconds of copying that output on the reference chip, for views.
        read_ptr: `[O + 1]`.
        reads: distinct operands of each op, a view's source first.
        made_ptr: `[O + 1]`.
        made: outputs of each op that have a name or a reader.
    """

    is_view: Bools
    copy_s: Floats
    read_ptr: Longs
    reads: Longs
    made_ptr: Longs
    made: Longs


class ValueTables(NamedTuple):
    """Values.

    Attributes:
        size_bytes: `[V]`, in SRAM and on a link.
        room_bytes: `[V]`, the same with alignment.
        unit: `[V]`, the unit that makes a value, or -1.
        constant: `[V]`, whether it depends on no graph input.
        outputs: graph outputs that leave a chip, in order.
        held: `[V]`, whether it is where a state does: a past, whose space is that of all sequences
            that a chip must hold, or the root of a present.
    """

    size_bytes: Longs
    room_bytes: Longs
    unit: Longs
    constant: Bools
    outputs: Longs
    held: Bools


class TensorTables(NamedTuple):
    """The tensors of the problem.

    Attributes:
        value: `[T]`.
        reader_ptr: `[T + 1]`.
        readers: units whose chips read each tensor, on their own or through clones.
        kind: `[T]`, how each travels: bits of `ring_routes`.
        relay_s: `[T]`, seconds of an Identity on the reference chip.
    """

    value: Longs
    reader_ptr: Longs
    readers: Longs
    kind: Longs
    relay_s: Floats


class ProblemTables(NamedTuple):
    """All tables of a problem.

    Attributes:
        units: see there, like the next four.
        kernels: kernels.
        ops: ops.
        values: values.
        tensors: tensors.
        strict: whether the triangle rule holds.
    """

    units: UnitTables
    kernels: KernelTables
    ops: OpTables
    values: ValueTables
    tensors: TensorTables
    strict: bool
