"""The link to the documentation in an estimator's HTML representation."""

import sys
from itertools import takewhile

_PAGES = "https://skvdl.readthedocs.io/en/stable/generated/{page}.html"


class DocLinkMixin:
    """Tell scikit-learn where the pages of this package are."""

    _doc_link_module = "skvdl"
    _doc_link_template = _PAGES

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the name of the page, which is that of the class in its public module."""
        kind = type(self)
        top = sys.modules["skvdl"]
        if kind.__name__ in top.__all__:
            return {"page": f"skvdl.{kind.__name__}"}
        public = takewhile(lambda part: not part.startswith("_"), kind.__module__.split("."))
        return {"page": ".".join([*public, kind.__name__])}
