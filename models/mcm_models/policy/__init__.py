"""The partitioning policy: a graph network that proposes a chip for every placement unit.

After MCM (Xie et al. 2022), section 4. `features` turns a problem into arrays, `network` is the
formula of the policy, `ppo` learns it in JAX, `inference` runs it in onnxruntime for compiles.
"""
