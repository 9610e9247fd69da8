"""The contracts of boxes: one machine with CPUs and GPUs, and which op of a step runs where.

`box` tells of the devices, `step` of what is placed on them, `evaluation` of how long a step takes,
`placers` of what searches. A box is no package of chips: all devices work on one step at a time,
and what counts is the time of the step.
"""
