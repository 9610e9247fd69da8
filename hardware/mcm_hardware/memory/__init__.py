"""Contents of a chip's memory over time: order, lifetimes, offsets, streamed weights."""
