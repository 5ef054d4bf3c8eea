"""The report of a day: tables, a chart and what was decided. Pure."""
