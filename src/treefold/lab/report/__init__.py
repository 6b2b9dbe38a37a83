"""Reports: one page from the records of many runs, made without torch."""

from treefold.lab.report.comparison import write_comparison
from treefold.lab.report.report import write_report

__all__ = ["write_comparison", "write_report"]
