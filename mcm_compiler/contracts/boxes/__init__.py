"""The contracts of boxes: hosts with CPUs and GPUs, and the placement of a step's ops on them.

`box` describes the devices, `step` the ops, `evaluation` the time of a step, and `placers` the
search. A box is no package of chips: all devices work on one step at a time, and its time is the
figure to minimise.
"""
