"""The order in which a page tells things: the main experiment first, the strongest preset first."""

PRESETS = ("paper", "standard", "quick", "smoke")
ROWS = (
    "oracle",
    "gru",
    "lstm",
    "gated-selection-general",
    "gated-selection",
    "binary-gru-assoc",
    "binary-gru",
    "binary-gru-readout",
    "binary-mlp",
    "conjugated-sum",
    "conjugated-max",
    "pna",
    "pna-one-tower",
    "pna-16",
    "mpnn-max",
    "mpnn-sum",
    "gat",
    "gcn",
    "gin",
    "max",
    "sum",
    "mean",
    "min",
    "std",
)
"""As in the paper's table: what is learned, then what is fixed."""


def place_of(
    experiment: str, changed: bool, preset: str, row: str, variant: str, weight: float
) -> tuple[bool, str, bool, int, str, float, int]:
    """A key to sort by: presets as they are come before those that were `changed` for a run.

    `weight` settles sweeps, the row everything else.
    """
    return (
        not experiment.startswith("second-minimum"),
        experiment,
        changed,
        _place(preset, PRESETS),
        variant,
        weight,
        _place(row, ROWS),
    )


def _place(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)
