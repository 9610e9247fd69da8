"""Writes docs/reference/sharding-rules.md: notation, how rules are registered, all built-in rules.

Run it after a change of the rules: `python tools/render_sharding_rules.py`; with `--check` it only
says whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from sharding_examples.example import Example
from sharding_examples.parts import DividedOp
from sharding_examples.tables import FAMILIES as EXAMPLES

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_passes.parallelism.rules.graph_rules import RegisteredRule, RuleTable
from mcm_passes.parallelism.rules.operators import FAMILIES, ONNX_RULES
from mcm_passes.parallelism.rules.operators.undivided import REASONS

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "sharding-rules.md"

KINDS = {
    FactorKind.PASS: "pass",
    FactorKind.REDUCE: "reduce",
    FactorKind.REPLICATE: "whole",
    FactorKind.HALO: "halo",
    FactorKind.BLOCKED: "blocked",
}

TITLES = {
    "elementwise": "Element by element",
    "reductions": "Reductions",
    "products": "Products",
    "convolutions": "Convolutions",
    "pooling": "Pools and sampling",
    "normalisations": "Normalisations",
    "attention": "Attention",
    "rearranging": "Another shape or order",
    "extents": "Joining, cutting, repeating, padding",
    "indexing": "Indices",
    "losses": "Losses",
    "batch_only": "Divided along the batch, recurrences in directions too",
    "undivided": "Never divided",
}

INTRODUCTION = """\
# Sharding rules

One rule per operator says which of its dimensions may be divided over devices together, and what
that requires. Plans are made from these rules alone. This page is written by
`python tools/render_sharding_rules.py`; the tables show the rules of the examples in
`tools/sharding_examples/`.

The tests divide every factor of every example in two, in three, and unevenly. Each part runs on its
own in onnxruntime, or in ONNX's reference evaluator where that has no kernel. The combined results
are compared with the whole operator. The tests do the same with the operators of exported models,
and `python tools/check_sharding_rules.py` with ONNX's own node tests.

## Notation

A rule names *factors*, the loops of an einsum-like reading of the operator, and says of which
factors every dimension of every operand and result is made:

```
b m k+, k+ n -> b m n       a batched product
a (h d) -> a h d            a reshape: h is the major factor, d the minor one
a !n -> a !n                a softmax along n
a (!c d) -> a d, a d        a split: of both results every device has its part of d
n c+ y~ x~, m c+ !i !j, m -> n m y~ x~
```

Operands are divided by commas, dimensions by spaces, operands from results by `->`.

@MARKS@

A mark holds for the factor everywhere, and a factor is at most once in an operand. A factor that is
in results only (copies that `Expand` makes) is divided without a trace in the operands. Faulty
notation is refused with the column: MCM-S001 to MCM-S007.

A device with a part of a factor may need other changes of the operator, such as another target of a
`Reshape` or `group` of a `Conv`. `mcm_passes.parallelism.rules.shard_forms` has them.

## Rules of other operators

An operator without a rule runs whole on every device, and a note says so (MCM-S010). A plug-in adds
a rule with an entry point of the kind `sharding-rule`, named by the operator with
its domain:

```toml
[project.entry-points."mcm_compiler.plugins"]
"sharding-rule.com.acme::Blend" = "acme_passes.sharding:BLEND"
"sharding-rule.com.acme::Fade" = "acme_passes.sharding:fade"
```

A rule is a text, which may be a template, or a function that makes one of what it may depend on:
operator, opset, attributes, shapes, and the values of small integer constants (`OpFacts`).

```python
BLEND = "n c y x, n c y x, c -> n c y x"


def fade(facts: OpFacts) -> ShardingRule:
    width = "!x" if facts.attributes.get("sideways", 0) else "x"
    text = f"n c y {width}, _ -> n c y {width}"
    return rule_for_shapes(text, facts.input_shapes, facts.output_shapes)
```

`rule_for_shapes` (`mcm_compiler.contracts.sharding.templates`) expands `*`, leaves out factors of
size 1 and finds the sizes. A function is called once per distinct set of facts and has no side
effects; its rule is checked against the shapes (MCM-S008). An entry point may also hold a mapping
from names of operators to rules, under any name: the built-in rules are the entry point `onnx`. Two
rules for one operator are an error (MCM-X001). """


MARKS = (
    (
        "m",
        "divided: every device computes its part of the results that have `m`; results without it"
        " are the same everywhere",
    ),
    (
        "k+",
        "divided: results without `k` are partial and have to be added; `k+max`, `k+min` and"
        " `k+prod` put them together otherwise, and `k+mean` is a mean weighted by what each"
        " device had of `k`",
    ),
    ("!n", "cannot be divided: the operator needs it whole"),
    (
        "y~",
        "a window slides along it, so that neighbours need each other's edges; its size is that"
        " of the result",
    ),
    ("c/", "a part of it would be no regular part on the other side (5 elements joined with 2)"),
    ("(h d)", "one dimension made of factors, major to minor; contiguous parts are parts of `h`"),
    ("(!c d)", "a part of it has a run of consecutive elements, its part of `d`, for each of `c`"),
    ("1", "a dimension that is never divided: of size 1, or broadcast"),
    ("[]", "an operand or result without dimensions"),
    ("_", "an operand that is left out, or that every device reads as a whole"),
    ("*", "in templates: any number of dimensions, aligned from the right and broadcast"),
)


def render() -> str:
    """The page."""
    table = RuleTable({n: RegisteredRule(n, maker, "onnx") for n, maker in ONNX_RULES.items()})
    marks = [f"| `{text}` | {meaning} |" for text, meaning in MARKS]
    introduction = INTRODUCTION.replace(
        "@MARKS@", "\n".join(["| text | meaning |", "|---|---|", *marks])
    )
    lines = [introduction, "## Coverage", ""]
    full = len(ONNX_RULES) - len(FAMILIES["batch_only"]) - len(FAMILIES["undivided"])
    lines += [
        f"{len(ONNX_RULES)} operators of ONNX's default domain: {full} with a rule of their own,",
        f"{len(FAMILIES['batch_only'])} divided along the batch alone, or in directions, "
        f"{len(FAMILIES['undivided'])} never divided.",
        "",
        "| family | operators | file |",
        "|---|---|---|",
        *(
            f"| {TITLES[name]} | {len(rules)} | `operators/{name}.py` |"
            for name, rules in FAMILIES.items()
        ),
    ]
    for family in EXAMPLES:
        lines += ["", f"## {TITLES[family]}", "", "| operator | rule | factors |", "|---|---|---|"]
        for operator in sorted(FAMILIES[family]):
            own = [e for e in EXAMPLES[family] if e.operator == operator]
            lines.append(_row(operator, own, table))
    lines += ["", f"## {TITLES['undivided']}", "", "| operators | why |", "|---|---|"]
    lines += [
        f"| {', '.join(f'`{o}`' for o in operators)} | {why} |"
        for why, operators in REASONS.items()
    ]
    return "\n".join(lines) + "\n"


def _row(operator: str, examples: Iterable[Example], table: RuleTable) -> str:
    rules = [DividedOp.of(example, table).rule for example in examples]
    texts = dict.fromkeys(f"`{rule}`" for rule in rules)
    return f"| {operator} | {'<br>'.join(texts)} | {_kinds(rules)} |"


def _kinds(rules: list[ShardingRule]) -> str:
    found = {factor.kind for rule in rules for factor in rule.factors}
    return ", ".join(word for kind, word in KINDS.items() if kind in found)


def main() -> int:
    """Writes or checks the page; 1 if it is out of date."""
    page = render()
    if "--check" not in sys.argv[1:]:
        PATH.write_text(page, encoding="utf-8")
        return 0
    if PATH.is_file() and PATH.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PATH.name} is out of date; run: python tools/render_sharding_rules.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
