"""What a report says of the hardware that a model runs on: its energy, and other sizes of it."""
