"""Reports: from records to one page, figures and a table; readable and made without torch."""

from treefold.lab.report.report import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]
