"""Reports: one page from the records of many runs, made without torch."""

from treefold.lab.report.comparison import write_comparison
from treefold.lab.report.draw import Figure, Line
from treefold.lab.report.report import write_page, write_report
from treefold.lab.report.sections import Section
from treefold.lab.report.tables import Cell, Table

__all__ = ["Cell", "Figure", "Line", "Section", "Table"]
__all__ += ["write_comparison", "write_page", "write_report"]
