"""What a batch judge knows of a problem before it sees a partition, as arrays."""

from __future__ import annotations

from typing import NamedTuple

from mcm_compiler.partition import Bools, Floats, Ints, Longs


class ProblemTables(NamedTuple):
    """A model as compiled code walks through it: N units of K kernels of O ops, and V values.

    Kernels are numbered unit by unit and ops kernel by kernel, so that each has a range of the
    next. Rows of varying length are in CSR form: those of `x` are `x[x_ptr[i]:x_ptr[i + 1]]`.

    Attributes:
        clone_row: `[N]`, counts clonable units from 0; -1 for all others.
        pinned_chip: `[N]`, as in `PartitionProblem`.
        kernel_ptr: `[N + 1]`, kernels of each unit.
        edge_source: `[E]`, units that the rules of the ring speak of.
        edge_target: `[E]`.
        op_ptr: `[K + 1]`, ops of each kernel.
        kernel_unit: `[K]`.
        kernel_s: `[K]`, seconds on the reference chip.
        early_kernels: kernels of constant ops, in the order in which a chip runs them before all
            others.
        is_early: `[K]`, which those are.
        option_ptr: `[K + 1]`, values that leave a kernel on some chips and on others not: those of
            clones with several results.
        option_values: those values.
        option_begin: `[K]`, where the times of such a kernel start in `option_s`, or -1.
        option_s: seconds on the reference chip, by the number whose bit i tells whether the
            kernel's option i leaves.
        is_view: `[O]`, True where the first output is the first operand under another shape.
        copy_s: `[O]`, seconds of copying that output, for views.
        read_ptr: `[O + 1]`.
        read_values: distinct operands of each op, a view's source first.
        made_ptr: `[O + 1]`.
        made_values: outputs of each op that have a name or a reader.
        value_bytes: `[V]`, in SRAM and on a link.
        value_room: `[V]`, the same with alignment.
        value_unit: `[V]`, the unit that makes a value, or -1.
        value_constant: `[V]`, whether it depends on no graph input.
        tensor_value: `[T]`, the value of each tensor of the problem.
        tensor_producer: `[T]`, as in `PartitionProblem`, like the next three.
        tensor_ptr: `[T + 1]`.
        tensor_consumers: units.
        tensor_to_host: `[T]`.
        relay_s: `[T]`, seconds of an Identity of each tensor on the reference chip.
        output_values: graph outputs that leave a chip, in order.
        num_clonable: clonable units.
        relays: whether long dependencies are relayed.
        ends: whether the host reaches the ends of the ring only.
    """

    clone_row: Ints
    pinned_chip: Ints
    kernel_ptr: Longs
    edge_source: Ints
    edge_target: Ints
    op_ptr: Longs
    kernel_unit: Longs
    kernel_s: Floats
    early_kernels: Longs
    is_early: Bools
    option_ptr: Longs
    option_values: Longs
    option_begin: Longs
    option_s: Floats
    is_view: Bools
    copy_s: Floats
    read_ptr: Longs
    read_values: Longs
    made_ptr: Longs
    made_values: Longs
    value_bytes: Longs
    value_room: Longs
    value_unit: Longs
    value_constant: Bools
    tensor_value: Longs
    tensor_producer: Ints
    tensor_ptr: Longs
    tensor_consumers: Ints
    tensor_to_host: Bools
    relay_s: Floats
    output_values: Longs
    num_clonable: int
    relays: bool
    ends: bool
