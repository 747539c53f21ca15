"""How sphinx builds the documentation; `make docs` runs it."""

import sys
from pathlib import Path

import skvdl

# for the order of the gallery
sys.path.insert(0, str(Path(__file__).parent))

project = "skvdl"
author = "the skvdl developers"
version = release = skvdl.__version__
project_copyright = author

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "templates", "images"]
templates_path = ["templates"]
default_role = "code"

autosummary_generate = True
# Their members are told elsewhere, with references to pages that are not here.
autosummary_context = {
    "foreign_classes": [
        "BaseEstimator",
        "ClassNamePrefixFeaturesOutMixin",
        "Module",
        "OneToOneFeatureMixin",
        "TransformerMixin",
        "_MetadataRequester",
        "_SetOutputMixin",
    ]
}
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "ignore_pattern": r"demo\.py",
    "within_subsection_order": "gallery_order.reading_order",
    "doc_module": "skvdl",
    "reference_url": {"skvdl": None},
    "capture_repr": (),
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"skvdl {version}"
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": False,
}
# a short page needs no list of its neighbours
html_sidebars = {"guide": [], "api": [], "gallery/index": []}


def _escape_fitted_names(app, what, name, obj, options, lines):
    """Keep ``(n_features_in_,)`` in the type of an attribute from being read as a reference."""
    lines[:] = [line.replace("(n_features_in_,)", r"(n_features_in\_,)") for line in lines]


def setup(app):
    """Connect what is above; before numpydoc, which has priority 500."""
    app.connect("autodoc-process-docstring", _escape_fitted_names, priority=400)
