"""Sphinx configuration: MyST pages, the Furo theme, no network."""

from importlib.metadata import version as installed

project = "Undertow"
author = "The Undertow authors"
copyright = author
version = release = installed("undertow")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Types of other packages, and protocols that only describe an argument.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|triton|numpy|typer|rich)(\..*)?"),
    ("py:class", r"Place|undertow\.errors\.Place"),
]

html_theme = "furo"
html_title = "Undertow"
html_copy_source = False
