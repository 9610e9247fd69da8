"""Chips of a compiled model as processes of this machine that hand tensors on in shared memory."""
