"""The parts of `calibration.py`."""
