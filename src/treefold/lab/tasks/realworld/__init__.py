"""Benchmarks of real graphs: molecules and superpixels, from the official files."""
