"""Causal masks, caches, padding and tied weights of GPT-2, Llama and T5."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.zoo.gpt2 import Gpt2, Gpt2Tiny
from mcm_models.zoo.llama import Llama, Llama7B, LlamaTiny
from mcm_models.zoo.t5 import T5, relative_bucket
from tests.generators.parameter_count import parameter_count

_T5 = T5(layers=2, decoder_layers=2, hidden=32, heads=2, vocab=50, seq=10, decoder_seq=8)


def test_gpt2_reads_no_later_token(run):
    model = Gpt2(layers=2, hidden=32, heads=2, intermediate=64, vocab=50, seq=8).build()
    ids = np.arange(8)[np.newaxis]
    later = ids.copy()
    later[0, 5:] = 40
    one, other = run(model, {"input_ids": ids})[0], run(model, {"input_ids": later})[0]
    np.testing.assert_array_equal(one[:, :5], other[:, :5])
    assert not np.allclose(one[:, 5:], other[:, 5:], atol=1e-3)


def test_gpt2_with_a_cache_says_what_it_says_of_the_whole_sequence(run):
    size = {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "vocab": 50}
    ids = np.array([[7, 3, 11, 40, 5, 9]])
    (whole,) = run(Gpt2(**size, seq=6).build(), {"input_ids": ids})
    names = [f"past_key_values.{n}.{part}" for n in range(2) for part in ("key", "value")]

    past, cache = 0, [np.zeros((1, 2, 0, 16), np.float32)] * 4
    for seq in (4, 1, 1):
        model = Gpt2(**size, cache=True, past=past, seq=seq).build()
        feeds = {"input_ids": ids[:, past : past + seq], **dict(zip(names, cache, strict=True))}
        logits, *cache = run(model, feeds)
        np.testing.assert_allclose(logits, whole[:, past : past + seq], atol=1e-5)
        past += seq
        assert [value.shape for value in cache] == [(1, 2, past, 16)] * 4


_LLAMA = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "intermediate": 96, "vocab": 50}
_TOKENS = np.array([[7, 3, 11, 40, 5, 9]])


def _llama_steps(run, *steps, **options):
    """Logits of all tokens, some of them at each step, and the cache after the last."""
    dtype = np.float16 if options.get("weights") == "float16" else np.float32
    names = [f"past_key_values.{n}.{part}" for n in range(2) for part in ("key", "value")]
    past, made, cache = 0, [], [np.zeros((1, 2, 0, 16), dtype)] * 4
    for seq in steps:
        model = Llama(**_LLAMA, past=past, seq=seq, positions=8, **options).build()
        feeds = {"input_ids": _TOKENS[:, past : past + seq], **dict(zip(names, cache, strict=True))}
        if options.get("style") == "genai":
            feeds["attention_mask"] = np.ones((1, past + seq), np.int64)
        else:
            feeds["position_ids"] = np.arange(past, past + seq)[np.newaxis]
        logits, *cache = run(model, feeds)
        made.append(logits)
        past += seq
    return [np.concatenate(made, axis=1), *cache]


@pytest.mark.parametrize("weights", ["float", "float16", "qdq", "nbits"])
def test_styles_of_llama_agree_on_whole_sequences_and_on_steps(run, weights):
    whole = _llama_steps(run, 6, weights=weights)
    atol = 2e-2 if weights == "float16" else 2e-5
    for style in ("hf", "genai", "attention"):
        found = _llama_steps(run, 4, 1, 1, style=style, weights=weights)
        for one, other in zip(whole, found, strict=True):
            np.testing.assert_allclose(one, other, atol=atol)


@pytest.mark.parametrize("weights", ["float", "qdq", "nbits"])
def test_experts_of_one_op_are_chosen_by_the_router(run, weights):
    options = {"style": "genai", "weights": weights, "experts": 4}
    found = {active: _llama_steps(run, 6, active=active, **options)[0] for active in (1, 4)}
    assert all(0.3 < logits.std() < 3 for logits in found.values())
    assert not np.allclose(found[1], found[4], atol=0.1)


def test_sizes_of_llama_are_the_published_ones():
    assert Llama().parameters == 1_100_048_384
    assert Llama7B().parameters == 6_738_415_616
    assert "mcm.weights" in Llama().build().metadata_props
    assert "mcm.weights" not in Llama(layers=1).build().metadata_props
    tables = 2 * 128 * 32  # positions and both halves of a head
    for experts in (0, 3):
        tiny = LlamaTiny(experts=experts)
        assert parameter_count(tiny.build()) - tables == tiny.parameters


def test_t5_decoder_reads_no_later_token_and_no_padding(run):
    model = _T5.build()
    mask = np.ones((1, 10), dtype=np.int64)
    mask[0, 7:] = 0
    ids, decoder_ids = np.arange(10)[np.newaxis], np.arange(8)[np.newaxis]
    feeds = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
    (one,) = run(model, feeds)

    padding, later = ids.copy(), decoder_ids.copy()
    padding[0, 7:] = 40
    later[0, 5:] = 40
    (other,) = run(model, feeds | {"input_ids": padding, "decoder_input_ids": later})
    np.testing.assert_array_equal(one[:, :5], other[:, :5])

    source = ids.copy()
    source[0, 0] = 40
    (moved,) = run(model, feeds | {"input_ids": source})
    assert not np.allclose(one, moved, atol=1e-3)


@pytest.mark.parametrize(
    ("builder", "table", "readers"),
    [(Gpt2Tiny(), "transformer.wte.weight", 2), (_T5, "shared.weight", 3)],
    ids=["gpt2", "t5"],
)
def test_head_is_tied_to_the_embedding(builder, table, readers):
    weight = builder.build().graph.initializers[table]
    read_by = sorted(use.node.op_type for use in weight.uses())
    assert read_by == ["Gather"] * (readers - 1) + ["Gemm"]


def test_bidirectional_buckets():
    bucket = relative_bucket(200, 32, 128, bidirectional=True)
    # From the released code: distances below 8 are exact, later keys start at 16.
    assert [bucket[150, 150 - d] for d in (0, 1, 7, 8, 16, 64, 128, 150)] == [
        0, 1, 7, 8, 10, 14, 15, 15,
    ]  # fmt: skip
    assert [bucket[0, d] for d in (1, 7, 8, 128)] == [17, 23, 24, 31]


def test_causal_buckets():
    bucket = relative_bucket(200, 32, 128, bidirectional=False)
    assert [bucket[150, 150 - d] for d in (0, 1, 15, 16, 64, 150)] == [0, 1, 15, 16, 26, 31]
    assert (bucket[np.triu_indices(200)] == 0).all()
    assert (np.diff(bucket[199]) <= 0).all()
