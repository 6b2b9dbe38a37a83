"""The lab: the paper's experiments, their records and reports, on top of the library."""
