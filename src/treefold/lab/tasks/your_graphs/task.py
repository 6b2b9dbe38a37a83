"""Graphs of a user as a task: named in the recipe, and checked to be the same when read again."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from treefold.lab.tasks.your_graphs.dataset import Dataset, digest_of, load_dataset


@dataclass(frozen=True)
class YourGraphs:
    """A data set by the name that `treefold compare` was given, and the facts about it.

    `dataset` is a Python file, one of our tasks, or a TU data set in the folder `data`; it is empty
    for graphs that were given in memory. `kind`, `metric`, `split` are None where inferred.
    """

    name: ClassVar[str] = "your-graphs"

    dataset: str
    data: str | None = None
    kind: str | None = None
    metric: str | None = None
    split: str | None = None
    source_digest: str | None = None
    """SHA-256 of the Python file."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the data, with a digest of all of it: see `Dataset.facts`."""

    @classmethod
    def of(cls, found: Dataset) -> "YourGraphs":
        """The task of a data set."""
        return cls(**vars(found.origin), facts=found.facts())

    def load(self) -> Dataset:
        """The data set, read again; a ValueError if it is not the same any more.

        A Python file is run, but only if its text is still the same.
        """
        title = self.facts.get("name")
        if not self.dataset:
            raise ValueError(
                f"the graphs of {title} were given in memory, and cannot be read again; give them "
                "to treefold.lab.experiments.compare, which resumes runs"
            )
        if self.source_digest is not None and digest_of(Path(self.dataset)) != self.source_digest:
            raise ValueError(
                f"{self.dataset} is not the file that this run was trained on: its text has "
                "changed; restore it, or compare again with another --out"
            )
        found = load_dataset(
            self.dataset,
            None if self.data is None else Path(self.data),
            self.kind,
            self.metric,
            self.split,
        )
        if found.digest != self.facts.get("digest"):
            raise ValueError(
                f"the graphs of {self.dataset} are not those that this run was trained on; "
                "dataset() must give the same data each time: seed what it draws"
            )
        return found
