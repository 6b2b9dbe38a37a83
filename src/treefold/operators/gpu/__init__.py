"""Folds off the CPU: one run per level, gates in Triton where it is installed."""
