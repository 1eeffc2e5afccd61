"""A release as one HTML page that needs nothing from outside: table, privacy card."""

from __future__ import annotations

import html

from dpframe.release import Release

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #8884;
         overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
"""


def page(release: Release) -> str:
    """The page as text. Everything in it is public."""
    facts = release.receipt
    title = f"Heavy hitters of {facts['hierarchy']}"
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>"
        f"<p>Noisy counts with {html.escape(facts['guarantee'])}.</p>"
        f"<div class='scroll'>{_rows(release)}</div>"
        f"<div class='scroll'>{facts._repr_html_()}</div></body></html>\n"
    )


def _rows(release: Release) -> str:
    frame = release.frame[["level", "prefix", "residual", "count", "lower", "upper"]]
    head = "".join(f"<th>{name}</th>" for name in frame.columns)
    body = []
    for row in frame.itertuples(index=False):
        cells = [
            f"<td>{html.escape(value)}</td>"
            if isinstance(value, str)
            else f"<td class='number'>{value}</td>"
            for value in row
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
