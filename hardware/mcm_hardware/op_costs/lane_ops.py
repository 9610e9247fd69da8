"""Operations of a vector lane that elementary functions take (our derivation).

A lane does one add, multiply, fused multiply-add, compare, select or convert per cycle. The chip
holds floats in 16 bits, so approximations are good to about 11 bits:

- division: reciprocal estimate from a table, one Newton step (2), one multiply;
- square root, reciprocal square root: estimate, one Newton step (3);
- exp: range reduction (2), polynomial of degree 3, scaling by a power of two;
- log: exponent and mantissa apart (2), polynomial of degree 4, one multiply-add;
- sine, cosine: range reduction (2), polynomial of degree 5 in x^2, selection of sign (1);
- tanh and sigmoid: one exp, one add, one division (tanh one multiply more);
- erf: Abramowitz and Stegun 7.1.25: one exp, one division, polynomial of degree 3, sign.
"""

from __future__ import annotations

DIVIDE = 4
SQUARE_ROOT = 4
EXP = 6
LOG = 7
SINE = 8
SIGMOID = EXP + 1 + DIVIDE
TANH = SIGMOID + 1
ERF = EXP + DIVIDE + 5
POWER = LOG + 1 + EXP
ARC = 12
SOFTMAX = EXP + 4
"""Per element: running maximum, subtraction, exp, running sum, multiplication by the inverse."""

NORMALIZE = 8
"""Per element: mean (1), squared deviation (2), normalise (2), scale and shift (2), convert (1)."""

REQUANTIZE = 4
"""Per element: scale, add the zero point, round, saturate."""
