"""The constraint solver of the ring: domains, propagation, and exact samplers of valid partitions.

The interface of MCM (Xie et al. 2022), section 4.2 and algorithms 1 and 2, on our own engine:
`constraint_solver.py` is the readable reference, `batch.py` does the same for many rollouts at
once, `problem_sampling.py` for whole problems of any size, and `cp_sat.py` is the authority where
propagation gives up.
"""
