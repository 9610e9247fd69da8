"""A cache stays on its chips in every spelling of attention, bit-identical over steps."""

from __future__ import annotations

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions
from tests.generators.small_decoders import SPELLINGS, small_decoder


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_cache_stays_on_its_chip_and_steps_are_bit_identical(spelling):
    options = CompileOptions(level=0, replicas=1, inferences=8)
    result = compile_model(small_decoder(spelling), "mcm4", options)
    held = {pair.present for chip in result.chips for pair in chip.states}
    assert held == {"present_0", "present_1"}
    assert result.verification.holds
    assert result.verification.steps == 8
    assert all(output.bit_equal for output in result.verification.outputs)
    assert not any("one run" in note.message for note in result.diagnostics)
