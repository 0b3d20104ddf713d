"""The picture of a neighborhood: for graphviz, as an image, as a page for the browser. Pure functions of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.history.evidence import Told
    from repoagent.history.neighbors import Neighborhood

__all__ = ["draw"]


def draw(form: str, found: Neighborhood, told: Mapping[str, Told]) -> str:
    """The neighborhood as "dot", "svg" or "html" text; `told` has the commits behind it, by full id.

    The same values give the same text. Raises ValueError for another form.
    """
    from repoagent.history.picture.graph import build

    graph = build(found, told)
    if form == "dot":
        from repoagent.history.picture.dot import dot

        return dot(graph)
    if form == "svg":
        from repoagent.history.picture.svg import svg

        return svg(graph)
    if form == "html":
        from repoagent.history.picture.html import html

        return html(graph)
    raise ValueError(form)
