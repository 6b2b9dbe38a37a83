"""Compiled loops over numpy arrays, for CPUs; they need numba, which is optional."""
