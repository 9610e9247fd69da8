"""A table over batches and contexts, against compiles for these sizes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from tests.generators.small_decoders import small_decoder

PASSES = DEFAULT_PIPELINE.removesuffix(",emit,verify")
ZOO = "zoo:gpt2-tiny{{cache=true,past={},seq=1,batch={}}}"


def compiled(model: str | ir.Model, **options: object):
    asked = CompileOptions(level=0, replicas=1, inferences=8, passes=PASSES, **options)
    return compile_model(model, "mcm4", asked)


def test_other_sizes_are_near_what_compiles_for_them_give():
    result = compiled(ZOO.format(31, 1), serve={"tpot": 30e-6})
    rows = {(row["batch"], row["context"]): row for row in result.sizes}
    assert [size for size, row in rows.items() if row["status"] == "simulated"] == [(1, 32)]
    assert {batch for batch, _ in rows} == {1, 2, 8, 32}
    now, alone = rows[1, 32], result.simulation
    assert now["tokens_per_s"] == pytest.approx(1 / alone.period_s)
    assert now["tpot_s"] == pytest.approx(result.program.sequences * alone.period_s)
    assert now["within_limits"]
    there = compiled(ZOO.format(63, 8))
    found = rows[8, 64]
    assert found["tokens_per_s"] == pytest.approx(8 / there.simulation.period_s, rel=0.1)
    assert not found["within_limits"]


def test_longer_contexts_leave_memory_for_fewer_sequences():
    rows = {r["context"]: r for r in compiled(ZOO.format(63, 8), serve={"tpot": 1.0}).sizes
            if r["batch"] == 8}  # fmt: skip
    assert [rows[64]["status"], rows[128]["status"]] == ["simulated", "estimated"]
    fits = [rows[context]["fitting_sequences"] for context in (32, 64, 128)]
    assert fits[0] == pytest.approx(2 * fits[1], rel=0.02)
    assert fits[1] == pytest.approx(2 * fits[2], rel=0.02)


@pytest.mark.parametrize(("spelling", "context"), [("mha", 16), ("gqa-shared", 7)])
def test_files_take_other_sizes_without_weights(spelling, context):
    """Estimates join on to the simulation, caches in one buffer are as long as their context."""
    rows = compiled(small_decoder(spelling), serve={"tpot": 1.0}).sizes
    one = [row for row in rows if row["batch"] == 1]
    assert [row["status"] for row in one] == ["estimated", "estimated", "simulated", "estimated"]
    assert [row["context"] for row in one][2] == context
    rates = [row["tokens_per_s"] for row in one]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(rates[-1], rel=0.1)
    fits = [row["fitting_sequences"] for row in rows if row["batch"] == 32]
    assert fits == sorted(fits, reverse=True)


def test_sizes_that_a_file_names_inside_are_left_out():
    rows = compiled(small_decoder("tensor-scatter"), serve={"tpot": 1.0}).sizes
    assert [row["status"] for row in rows if row["batch"] > 1] == []


def test_contexts_end_where_a_model_takes_no_more_positions():
    rows = compiled("zoo:llama-tiny{layers=1,past=127}", serve={"tpot": 1.0}).sizes
    assert {(row["batch"], row["context"]) for row in rows} == {
        (batch, context) for batch in (1, 2, 8, 32) for context in (32, 64, 128)
    }


def test_nobody_asked():
    assert compiled(small_decoder("mha")).sizes == ()
