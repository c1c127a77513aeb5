"""Configuration of Sphinx; `python -m tools.site` writes the sources and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = "penstock"
html_title = "penstock"
extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.site.extension"]
root_doc = "index"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "text"
default_role = "code"
smartquotes = False  # "--sram" keeps its two hyphens
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["penstock.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
