"""Proof by structure that the chips of a folder compute what a model computes.

Every value of the model gets a number, and every value of the chips, wire by wire, as well. Equal
numbers mean equal values, because a number is nothing but an op with its attributes and the
numbers that it reads (value numbering; Alpern, Wegman and Zadeck 1988). What passes may rewrite
has rules of its own here, which share no code with the passes. Calls of functions and an `If` of
known condition are walked through, and constants are computed. Identities stand for what they read,
and ops over slices of a weight are put together.
"""
