"""The site: ``sphinx-build -W docs site``. Works from a folder, without network or server.

``python -m tests.site FOLDER`` builds it beside those of other versions, and checks it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs
from sphinx.application import Sphinx

from dpframe import __version__

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import references


def setup(app: Sphinx) -> None:
    """Pages with plots find plotly.js in the site, and long signatures are short."""
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-process-docstring", grouped_parameters, priority=400)  # before napoleon
    app.connect("builder-inited", plotly_beside)
    app.connect("html-page-context", with_plots)


def plotly_beside(app: Sphinx) -> None:
    folder = Path(app.outdir, "_static")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plotly.min.js").write_text(get_plotlyjs(), "utf-8")


def with_plots(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if 'class="plot"' in context.get("body", ""):
        app.add_js_file("plotly.min.js")
        app.add_js_file("plots.js")


def short_signature(
    app: Sphinx, kind: str, name: str, what: Any, options: Any, said: str, returned: str
) -> tuple[str, str] | None:
    short = references.short_signature(what)
    return (short, returned) if short else None


def grouped_parameters(
    app: Sphinx, kind: str, name: str, what: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = references.grouped_parameters(what, "\n".join(lines)).split("\n")


project = "dpframe"
author = project_copyright = "The dpframe maintainers"
release = version = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["**/.ipynb_checkpoints", "bi"]  # files to take, not pages
nitpicky = False
suppress_warnings = ["myst.header"]  # a decision has no heading below its title

suppress_warnings.append("mystnb.unknown_mime_type")  # plots stand there as HTML, too

html_theme = "furo"
html_title = f"dpframe {version}"
html_static_path = ["assets"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
        "versions.html",
    ]
}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the tests run the notebooks; the site shows what they answered

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_custom_sections = ["Privacy", *((g, "params_style") for g in [*references.GROUPS][1:])]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
