"""What training graphs tell an aggregator: PNA's scalers refer to the mean logarithm of degrees."""

from typing import Any


def told_degrees(
    name: str, mean_log_degree: float | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The options of the aggregator `name`, for PNA with δ of its scalers; options win over it."""
    if name != "pna" or mean_log_degree is None:
        return options
    return {"mean_log": mean_log_degree, **options}
