"""Llama (Touvron et al. 2023, *LLaMA: Open and Efficient Foundation Language Models*)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.graph_builder import GraphBuilder, Scope, Uniform
from mcm_models.zoo.layers.decoder_caches import Cache, Caches

_EPSILON = 1e-5
_THETA = 10_000.0
"""Base of the wave lengths of rotary positions."""

_BLOCK = 32
"""Weights of four bits that share a scale."""

_PLACEHOLDERS_ABOVE = 1_000_000_000
"""Parameters above which weights are left out unless the options ask for them."""

_FOUR_BITS = {"qdq": Uniform(-8, 8), "nbits": Uniform(0, 256)}
"""Numbers from -8 to 7, and bytes with two numbers from 0 to 15 each around a zero point of 8."""

_LOWEST = {"float": float(np.finfo(np.float32).min), "float16": float(np.finfo(np.float16).min)}
"""Score of a later position."""


@dataclass(frozen=True)
class Llama:
    """A decoder with its cache: heads share keys and values, positions are rotary.

    Pre-normalised by root mean squares, without shifts, with SwiGLU as feed-forward. The defaults
    are those of TinyLlama-1.1B (Zhang et al. 2024), one token after 127.

    Attributes:
        layers: decoder layers.
        hidden: width of the residual stream; an even multiple of `heads`.
        heads: attention heads; a multiple of `kv_heads`.
        kv_heads: heads of keys and values.
        intermediate: width of the feed-forward layers.
        vocab: number of tokens.
        positions: rows of the rotary tables, the longest sequence possible.
        past: earlier tokens; 0 where a prompt is read first (prefill).
        seq: tokens per sequence.
        batch: sequences per inference.
        style: `hf` has a `Concat` for each cache and repeats keys and values for each head;
            `genai` has `GroupQueryAttention`; `attention` has the standard op `Attention`.
        weights: of linear layers: `float`; `float16`, with activations of 16 bits; four bits behind
            `DequantizeLinear` (`qdq`) or in `MatMulNBits` (`nbits`), in blocks of 32.
        experts: feed-forward layers that a router chooses from; 0 for one layer without a router.
            With `genai` they are one op, else all of them run and a `Where` picks their factors.
        active: experts of a token.
        seed: seed of the random weights.
        shape_only: leave out the weights' values; none: above 1 G parameters.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "llama"
    summary: ClassVar[str] = "Llama of any size with its cache (default: TinyLlama-1.1B)"

    layers: int = 22
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 4
    intermediate: int = 5632
    vocab: int = 32_000
    positions: int = 2048
    past: int = 127
    seq: int = 1
    batch: int = 1
    style: Literal["hf", "genai", "attention"] = "hf"
    weights: Literal["float", "float16", "qdq", "nbits"] = "float"
    experts: int = 0
    active: int = 2
    seed: int = 0
    shape_only: bool | None = None

    def __post_init__(self) -> None:
        graph_builder.require_sizes(self, "past", "experts")
        graph_builder.require_at_most(self.positions, "positions", past_and_seq=self._until)
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden={self.hidden} is not an even multiple of heads={self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}")
        if self.experts:
            graph_builder.require_at_most(self.experts, "experts", active=self.active)
        if self.style == "genai" and self._head_width % 16:  # of rotary positions, onnxruntime 1.31
            width = f"hidden={self.hidden} by heads={self.heads} is {self._head_width}"
            raise ValueError(f"{width}, which is not a multiple of 16: style=genai needs one")
        for width in (self.hidden, self.intermediate):
            if self.weights in _FOUR_BITS and width % _BLOCK:
                raise ValueError(f"a width of {width} is not a multiple of blocks of {_BLOCK}")

    @property
    def parameters(self) -> int:
        """Numbers in all weights, before they are packed."""
        feed_forward = 3 * self.hidden * self.intermediate
        if self.experts:
            feed_forward = self.experts * (feed_forward + self.hidden)
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self._head_width
        layers = self.layers * (attention + feed_forward + 2 * self.hidden)
        return 2 * self.vocab * self.hidden + layers + self.hidden

    @property
    def _head_width(self) -> int:
        return self.hidden // self.heads

    @property
    def _until(self) -> int:
        return self.past + self.seq

    @property
    def _dtype(self) -> ir.DataType:
        return ir.DataType.FLOAT16 if self.weights == "float16" else ir.DataType.FLOAT

    def build(self) -> ir.Model:
        """Makes the model: `input_ids` `[batch, seq]` to `logits` `[batch, seq, vocab]`.

        Keys and values, `past_key_values.N.key` and `.value`, are `[batch, kv_heads, past, width]`,
        and come out as `present.N.key` and `.value` with `past + seq` positions. `genai` reads an
        `attention_mask` `[batch, past + seq]`, the others `position_ids` `[batch, seq]`.
        """
        opset, ir_version = (23, 11) if self.style == "attention" else (21, 10)
        placeholders = self.parameters > _PLACEHOLDERS_ABOVE
        graph = GraphBuilder(
            self.name,
            opset=opset,
            ir_version=ir_version,
            seed=self.seed,
            shape_only=placeholders if self.shape_only is None else self.shape_only,
        )
        body = graph.root.sub("model")
        integers = ir.DataType.INT64
        ids = graph.input("input_ids", integers, [self.batch, self.seq])
        context = self._context(graph, body)
        sizes = [self.batch, self.kv_heads, self.past, self._head_width]
        caches = Caches(graph, self.layers, sizes, self._dtype)
        earlier = caches.past()
        # Deviation 1: rows of the table are what the first normalisation gets.
        table = graph_builder.spread(1.0)
        tokens = body.sub("embed_tokens")
        table = tokens.weight("weight", [self.vocab, self.hidden], table, self._dtype)
        hidden = tokens.op("Gather", table, ids)
        present: list[Cache] = []
        for layer, past in enumerate(earlier):
            scope = body.sub(f"layers.{layer}")
            branch = self._norm(scope.sub("input_layernorm"), hidden)
            branch, cache = self._attention(scope.sub("self_attn"), branch, past, context)
            present.append(cache)
            hidden = scope.op("Add", hidden, branch)
            branch = self._norm(scope.sub("post_attention_layernorm"), hidden)
            routed = self._experts if self.experts else self._feed_forward
            hidden = scope.op("Add", hidden, routed(scope.sub("mlp"), branch))
        hidden = self._norm(body.sub("norm"), hidden)
        logits = self._linear(graph.root.sub("lm_head"), hidden, self.hidden, self.vocab)
        graph.output(logits, "logits", self._dtype, [self.batch, self.seq, self.vocab])
        caches.present(present, self._until)
        return graph.model()

    def _context(self, graph: GraphBuilder, body: Scope) -> list[ir.Value]:
        """Inputs of all layers: lengths or positions, then waves, then earlier positions."""
        scope = body.sub("rotary_emb")
        powers = np.arange(0, self._head_width, 2) / self._head_width
        angles = np.arange(self.positions)[:, np.newaxis] / _THETA**powers
        if self.style == "hf":  # both halves of a head
            angles = np.concatenate((angles, angles), axis=1)
        waves = [
            scope.table(name, wave(angles).astype(self._dtype.numpy()))
            for name, wave in (("cos_cached", np.cos), ("sin_cached", np.sin))
        ]
        integers = ir.DataType.INT64
        if self.style == "genai":
            mask = graph.input("attention_mask", integers, [self.batch, self._until])
            lengths = body.op("ReduceSum", mask, body.ints(1), keepdims=0)
            last = body.op("Sub", lengths, body.ints(1))
            total = body.op("Gather", body.op("Shape", mask), body.index(1), axis=0)
            return [body.op("Cast", v, to=ir.DataType.INT32.value) for v in (last, total)] + waves
        places = graph.input("position_ids", integers, [self.batch, self.seq])
        ahead = body.table("causal_mask", np.tri(self.seq, self._until, self.past, np.bool_))
        if self.style == "attention":
            return [places, *waves, ahead]
        found = [scope.op("Gather", wave, places) for wave in waves]
        return [scope.op("Unsqueeze", wave, scope.ints(1)) for wave in found] + [ahead]

    def _attention(
        self, scope: Scope, hidden: ir.Value, past: Cache, context: list[ir.Value]
    ) -> tuple[ir.Value, Cache]:
        heads = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        query, key, value = (
            self._linear(scope.sub(f"{kind}_proj"), hidden, self.hidden, count * self._head_width)
            for kind, count in heads.items()
        )
        if self.style == "genai":
            joined, *cache = scope.ops(
                3,
                "com.microsoft.GroupQueryAttention",
                *(query, key, value, *past, *context),
                num_heads=self.heads,
                kv_num_heads=self.kv_heads,
                scale=1 / math.sqrt(self._head_width),
                do_rotary=1,
            )
        else:
            query, key, value = (
                scope.op(
                    "Transpose",
                    scope.op("Reshape", part, scope.ints(0, 0, count, self._head_width)),
                    perm=[0, 2, 1, 3],
                )
                for part, count in zip((query, key, value), heads.values(), strict=True)
            )
            *waves, ahead = context
            query, key = (self._rotated(scope, part, waves) for part in (query, key))
            if self.style == "attention":
                found = scope.ops(3, "Attention", query, key, value, ahead, *past)
            else:
                found = self._spelled_out(scope, query, (key, value), past, ahead)
            joined, *cache = found
            joined = scope.op("Transpose", joined, perm=[0, 2, 1, 3])
            joined = scope.op("Reshape", joined, scope.ints(0, 0, self.hidden))
        gain = self._residual_gain
        joined = self._linear(scope.sub("o_proj"), joined, self.hidden, self.hidden, gain)
        return joined, (cache[0], cache[1])

    def _rotated(self, scope: Scope, part: ir.Value, waves: list[ir.Value]) -> ir.Value:
        if self.style == "attention":
            places, cos, sin = waves
            return scope.op("RotaryEmbedding", part, cos, sin, places)
        cos, sin = waves
        halves = scope.ints(*[self._head_width // 2] * 2)
        low, high = scope.ops(2, "Split", part, halves, axis=-1)
        turned = scope.op("Concat", scope.op("Neg", high), low, axis=-1)
        return scope.op("Add", scope.op("Mul", part, cos), scope.op("Mul", turned, sin))

    def _spelled_out(
        self, scope: Scope, query: ir.Value, new: Cache, past: Cache, ahead: ir.Value
    ) -> list[ir.Value]:
        """The heads' results, and what is the cache from now on."""
        cache = [scope.op("Concat", old, more, axis=2) for old, more in zip(past, new, strict=True)]
        key, value = (self._repeated(scope, part) for part in cache)
        scores = scope.op("MatMul", query, scope.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = scope.op("Mul", scores, self._number(scope, 1 / math.sqrt(self._head_width)))
        lowest = _LOWEST.get(self.weights, _LOWEST["float"])
        scores = scope.op("Where", ahead, scores, self._number(scope, lowest))
        return [scope.op("MatMul", scope.op("Softmax", scores, axis=-1), value), *cache]

    def _repeated(self, scope: Scope, part: ir.Value) -> ir.Value:
        if self.heads == self.kv_heads:
            return part
        times = [1, 1, self.heads // self.kv_heads, 1, 1]
        wide = scope.op("Expand", scope.op("Unsqueeze", part, scope.ints(2)), scope.ints(*times))
        return scope.op("Reshape", wide, scope.ints(0, self.heads, -1, self._head_width))

    def _feed_forward(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        width, gain = self.intermediate, self._residual_gain
        gate = self._linear(scope.sub("gate_proj"), hidden, self.hidden, width)
        act = scope.sub("act_fn")
        gate = act.op("Mul", gate, act.op("Sigmoid", gate))
        gate = scope.op("Mul", gate, self._linear(scope.sub("up_proj"), hidden, self.hidden, width))
        return self._linear(scope.sub("down_proj"), gate, width, self.hidden, gain)

    def _experts(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """Each token's `active` best experts, by factors that add up to 1."""
        router = scope.sub("gate")
        spread = graph_builder.keeps_variance(self.hidden)
        weight = router.weight("weight", [self.hidden, self.experts], spread, self._dtype)
        logits = router.op("MatMul", hidden, weight)
        if self.style == "genai":
            return self._routed(scope.sub("experts"), hidden, logits)
        best, chosen = router.ops(2, "TopK", logits, router.ints(self.active), axis=-1)
        factors = router.op("Softmax", best, axis=-1)
        total: ir.Value | None = None
        for number in range(self.experts):
            expert = scope.sub(f"experts.{number}")
            mine = expert.op("Equal", chosen, expert.index(number))
            factor = expert.op("Where", mine, factors, self._number(expert, 0.0))
            factor = expert.op("ReduceSum", factor, expert.ints(-1), keepdims=1)
            result = expert.op("Mul", self._feed_forward(expert, hidden), factor)
            total = result if total is None else scope.op("Add", total, result)
        assert total is not None
        return total

    def _routed(self, scope: Scope, hidden: ir.Value, logits: ir.Value) -> ir.Value:
        """One op for all experts, the two products of SwiGLU's first half in turns of rows."""
        flat = scope.op("Reshape", logits, scope.ints(-1, self.experts))
        pairs = ((2 * self.intermediate, self.hidden, 1.0),
                 (self.hidden, self.intermediate, self._residual_gain))  # fmt: skip
        operands: list[ir.Value | None] = []
        for number, (rows, cols, gain) in enumerate(pairs, 1):
            layer = scope.sub(f"fc{number}")
            shape = [self.experts, rows, cols]
            operands += [*self._stored(layer, shape, gain), None]
        packed = {"expert_weight_bits": 4, "block_size": _BLOCK} if self.weights == "nbits" else {}
        return scope.op(
            "com.microsoft.QMoE" if packed else "com.microsoft.MoE",
            *(hidden, flat, *operands[:-1]),
            k=self.active,
            activation_type="swiglu",
            swiglu_fusion=1,
            normalize_routing_weights=1,
            **packed,
        )

    def _linear(
        self, scope: Scope, hidden: ir.Value, fan_in: int, fan_out: int, gain: float = 1.0
    ) -> ir.Value:
        if self.weights not in _FOUR_BITS:
            spread = graph_builder.keeps_variance(fan_in, gain)
            weight = scope.weight("weight", [fan_in, fan_out], spread, self._dtype)
            return scope.op("MatMul", hidden, weight)
        weights = self._stored(scope, [fan_out, fan_in], gain)
        if self.weights == "qdq":
            return scope.op("MatMul", hidden, scope.op("Transpose", weights[0], perm=[1, 0]))
        return scope.op(
            "com.microsoft.MatMulNBits",
            *(hidden, *weights),
            K=fan_in,
            N=fan_out,
            bits=4,
            block_size=_BLOCK,
        )

    def _stored(self, scope: Scope, shape: list[int], gain: float) -> list[ir.Value]:
        """Weights of shape `[..., fan_out, fan_in]`: as numbers, or packed with their scales."""
        *outer, fan_in = shape
        if self.weights not in _FOUR_BITS:
            spread = graph_builder.keeps_variance(fan_in, gain)
            return [scope.weight("weight", shape, spread, self._dtype)]
        # The deviation of whole numbers from -8 to 7.
        scale = gain / math.sqrt(fan_in * (16**2 - 1) / 12)
        blocks, numbers = fan_in // _BLOCK, _FOUR_BITS[self.weights]
        spread = graph_builder.around(scale, 0.2 * scale)
        scales = scope.weight("scales", [*outer, blocks], spread)
        if self.weights == "qdq":
            packed = scope.weight("weight", shape, numbers, ir.DataType.INT4)
            axis = len(shape) - 1
            return [scope.op("DequantizeLinear", packed, scales, axis=axis, block_size=_BLOCK)]
        inner = [fan_in // 2] if len(shape) > 2 else [blocks, _BLOCK // 2]
        packed = scope.weight("qweight", [*outer, *inner], numbers, ir.DataType.UINT8)
        return [packed, scales]

    def _norm(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        weight = graph_builder.around(1.0, 0.1)
        weight = scope.weight("weight", [self.hidden], weight, self._dtype)
        if self.style == "attention":
            return scope.op("RMSNormalization", hidden, weight, axis=-1, epsilon=_EPSILON)
        if self.style == "genai":
            return scope.op(
                "SimplifiedLayerNormalization",
                *(hidden, weight),
                axis=-1,
                epsilon=_EPSILON,
                stash_type=1,
            )
        narrow = self.weights == "float16"
        wide = scope.op("Cast", hidden, to=ir.DataType.FLOAT.value) if narrow else hidden
        squares = scope.op("Pow", wide, scope.floats(2.0))
        mean = scope.op("ReduceMean", squares, scope.ints(-1), keepdims=1)
        root = scope.op("Sqrt", scope.op("Add", mean, scope.floats(_EPSILON)))
        wide = scope.op("Mul", wide, scope.op("Reciprocal", root))
        result = scope.op("Cast", wide, to=self._dtype.value) if narrow else wide
        return scope.op("Mul", weight, result)

    def _number(self, scope: Scope, number: float) -> ir.Value:
        return scope.op("Constant", value=ir.tensor(np.array(number, self._dtype.numpy())))

    @property
    def _residual_gain(self) -> float:
        """Scales weights that write into the residual stream by its depth, as GPT-2 does."""
        return 1.0 / math.sqrt(2 * self.layers)


@dataclass(frozen=True)
class LlamaTiny(Llama):
    """A size for tests; no published model."""

    name: ClassVar[str] = "llama-tiny"
    summary: ClassVar[str] = "Llama for tests, 0.5 M parameters: 2 layers of width 128"

    layers: int = 2
    hidden: int = 128
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 256
    vocab: int = 1000
    positions: int = 128
    past: int = 31


@dataclass(frozen=True)
class Llama7B(Llama):
    """Llama-2-7B (Touvron et al. 2023)."""

    name: ClassVar[str] = "llama-7b"
    summary: ClassVar[str] = "Llama-2-7B with its cache, 6.7 G parameters, shapes only: 32 layers"

    layers: int = 32
    hidden: int = 4096
    kv_heads: int = 32
    intermediate: int = 11_008
    positions: int = 4096
