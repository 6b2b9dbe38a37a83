"""Experiments: recipes as data, presets, and the runs that turn them into records."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
