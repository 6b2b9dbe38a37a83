"""Tasks: data, answers, and the exact monoids that give them.

Two kinds of graphs are packages of their own: the multi-task benchmark, `treefold.lab.tasks.multitask`,
and molecules and images, `treefold.lab.tasks.realworld`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
