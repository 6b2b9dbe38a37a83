"""Published numbers by graph size, and sources of published numbers in words. Needs no torch."""

SOURCES = {
    "tab:pna_table": "the paper's Table 1",
    "tab:2min_1k_baselines": "the paper's Table 2",
    "fig:pna_realworld": "the paper's Figure 2",
    "subsec:2min, Efficiency; fig:2min_speedtest": "the paper's section 3.1, on its GPU",
}
"""Names in records, and their places for a reader."""

PNA_RATIOS = {
    "pna-16": (-1.84, -1.60, -1.30, -0.96, -0.71, -0.58),
    "mpnn-max": (-1.21, -1.03, -0.83, -0.66, -0.51, -0.43),
    "gin": (-0.73, -0.69, -0.60, -0.53, -0.28, -0.27),
    "gcn": (-0.55, -0.57, -0.44, -0.32, -0.24, -0.12),
    "gat": (-0.81, -0.72, -0.53, -0.32, -0.21),
    "mpnn-sum": (-0.81, -0.80, -0.60),
}
"""PNA's errors, log₁₀ of ratios to a constant answer's, on graphs of 20–24, 25–29, ... nodes.

Read off multitask-plots.png in the history of its repository, to about 0.02.
"""
