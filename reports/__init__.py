"""Reports: result rows -> one HTML file, a terminal table, Markdown, CSV.

Nothing here runs an experiment or computes a result. Rows are selected, joined and drawn, so that a
report can be made again from any run folder, on any machine.
"""

from __future__ import annotations

from reports.page import write_report
from reports.plain import terminal_tables, write_csv, write_markdown
from reports.runs import merge

__all__ = ["merge", "terminal_tables", "write_csv", "write_markdown", "write_report"]
