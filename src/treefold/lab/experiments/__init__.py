"""Experiments: recipes as data, presets, and the runs that turn them into records."""

from treefold.lab.experiments.loading import load_model

__all__ = ["load_model"]
