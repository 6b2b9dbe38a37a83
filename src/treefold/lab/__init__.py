"""The lab: the paper's experiments, and comparisons on your own graphs, on top of the library."""
