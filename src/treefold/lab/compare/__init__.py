"""Comparisons: the aggregators of the registry on somebody's own graphs, with equal budgets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
