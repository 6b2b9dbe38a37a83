"""Folds in C++ as operations of torch: compiled once per machine, used where they can be."""
