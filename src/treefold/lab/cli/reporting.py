"""What `treefold report` does; needs no torch."""

from pathlib import Path


def report_runs(runs: Path, out: Path | None) -> None:
    """Write the page and say where it is."""
    from treefold.lab.report import write_report

    files = write_report(runs, out or runs / "report")
    print(files.table.read_text())
    print(f"the page is {files.page}")
