"""Named releases as tables for BI tools."""
