"""The documentation site: pages of the repository, generated reference and results, as HTML.

python -m tools.site
"""
