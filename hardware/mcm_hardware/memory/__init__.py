"""What a chip holds and when: order, lifetimes, offsets, streamed weights."""
