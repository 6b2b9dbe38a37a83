"""A number that somebody else has published, with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treefold.lab.report.checks import is_finite


@dataclass(frozen=True)
class Published:
    """A published value, its spread if it came with one, and where it stands."""

    value: float
    spread: float | None
    source: str

    @classmethod
    def read(cls, entry: Mapping[str, Any] | None) -> "Published | None":
        """An entry of a record's `reported`; None where it holds no value."""
        if not entry or not is_finite(entry.get("value")):
            return None
        spread: Any = entry.get("spread")
        return cls(
            float(entry["value"]),
            float(spread) if is_finite(spread) else None,
            str(entry.get("source") or "source not recorded"),
        )

    @property
    def low(self) -> float:
        """The lower end of the spread."""
        return self.value - (self.spread or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the spread."""
        return self.value + (self.spread or 0.0)
