"""The least time of a kernel's work, in whatever parts chips do it.

Parts are boxes of the loops of an op: ranges of its rows (or, along one other axis, of its batch),
columns, sums and products. Together they compute every element of the result, each operand is read
by some part, and no part joins ops of several kernels. Under a model of engines that overlap, all
parts together take at least as long as each engine is busy with them.
"""

from __future__ import annotations

from mcm_compiler.contracts.cost import LeastWork
from mcm_hardware.chip import tile_cycles
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.op_costs.work import Gemm


def least_work(chip: ChipSpec, work: KernelWork, *, in_blocks: bool) -> LeastWork:
    """On a chip of speed 1, with one launch.

    Where engines take turns on blocks of results (`cycle_times`), no part of a product has more
    blocks than the whole. So `1 / blocks` of the shorter time is added at least: for any sums of
    times `a` and `v` of parts, `max(a, v) + min(a, v) / b` is at least `a + v / b` and `v + a / b`.

    A product of a part runs on the array or on the lanes as a whole. Of several products in a
    kernel, one may run on the array while another runs on the lanes, which halves their sum at
    best.
    """
    if not work.runs:
        return LeastWork(0.0, 0.0, 0.0)
    products = [_product(chip, part.gemm) for part in work.gemms]
    together_s = sum(seconds for seconds, _ in products)
    lanes_s = work.lane_ops / (chip.vector.lanes * chip.vector.clock_hz)
    memory_s = (work.read_bytes + work.write_bytes) / chip.sram_bytes_per_s
    product_s = max([together_s / 2.0, *(seconds for seconds, _ in products)])
    seconds = max(product_s, lanes_s)
    exposed_s = 0.0
    if in_blocks and len(products) == 1 and product_s > 0.0:
        blocks = tile_cycles.result_blocks(chip.array, work.gemms[0].gemm)
        exposed_s = min(product_s, lanes_s) / blocks
    bound = len(products) == 1 and seconds == product_s and seconds + exposed_s >= memory_s
    untied_s = chip.launch_s + (exposed_s if bound else 0.0)
    seconds = max(seconds + exposed_s, memory_s)
    return LeastWork(chip.launch_s + seconds, untied_s, products[0][1] if bound else 0.0)


def _product(chip: ChipSpec, gemm: Gemm) -> tuple[float, float]:
    """Seconds of all parts on the faster engine, and the share of the weights that it counts.

    The best of several measures. A measure gives each element of what stays in the array, of the
    result or of the weights, a number per axis. No range of R rows or C columns has more than 1.
    A part on the array takes at least as many passes as its elements have together, on
    the lanes the time of its elements.
    """
    array, lanes_hz = chip.array, chip.vector.lanes * chip.vector.clock_hz
    still = array.dataflow != "output_stationary"
    tall, steps = (gemm.k, gemm.m) if still else (gemm.m, gemm.k)
    best = 0.0, 0.0
    for row_weight, rows in _measures(tall, array.rows):
        for col_weight, cols in _measures(gemm.n, array.cols):
            each = min(row_weight * col_weight / array.clock_hz, 1.0 / lanes_hz)
            share = cols / max(gemm.n, 1) * (rows / max(tall, 1) if still else 1.0)
            best = max(best, (gemm.count * steps * each * rows * cols, share))
    return best


def _measures(extent: int, size: int) -> tuple[tuple[float, int], ...]:
    """Numbers of elements along an axis, each with how many elements have it.

    Spread evenly, or on the first elements of each range of `size`, as many as the last range has.
    Of those, a range of at most `size` elements has at most as many, wherever it begins.
    """
    if extent <= 0:
        return ((0.0, 0),)
    ranges = -(-extent // size)
    last = extent - (ranges - 1) * size
    return (1.0 / min(extent, size), extent), (1.0 / last, ranges * last)
