"""Runs: the loop, the world it runs in, scores, law violations, records and saved states."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
