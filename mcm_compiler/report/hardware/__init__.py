"""Energy and other sizes of the hardware that a model runs on."""
