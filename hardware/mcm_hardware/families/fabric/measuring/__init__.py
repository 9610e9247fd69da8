"""What a mapped fabric does, flit by flit: the judge of mappings."""
