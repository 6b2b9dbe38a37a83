"""Experiments: recipes as data, presets, and the runs that turn them into records."""
