"""What a mapped fabric does, flit by flit: the simulator of mappings."""
