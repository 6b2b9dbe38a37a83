"""What `treefold report` does; needs no torch."""

from pathlib import Path


def report_runs(runs: Path, out: Path | None) -> None:
    """Write the page, print its table, and where the page is."""
    from treefold.lab.report import write_report

    write_report(runs, out or runs / "report")
