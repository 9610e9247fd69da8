"""The contracts of boxes: hosts with CPUs and GPUs, and the placement of a step's ops on them.

`box` describes the devices and the ops, `evaluation` the time of a step, and `placers` the search.
Machines, levels, requests and answers are those of all products. Problems and evaluators are not.
All devices work on one step at a time, whose time is minimised, and placements go back and forth
between devices. A partition of a package is a pipeline, and its period that of a steady state.
"""
