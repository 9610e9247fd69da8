"""The constraint solver of the ring: domains, propagation, and exact samplers of valid partitions.

SAMPLE and FIX of MCM (Xie et al. 2022), section 4.2 and algorithms 1 and 2, on our own engine:
`batch.py` draws many rollouts at once.
"""
