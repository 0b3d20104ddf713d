"""The map of a repository as an HTML page: a disc of dots for each cluster, lines between discs, labels on bridges.

Discs are placed largest first, each touching another one without overlap, nearest to the clusters that it changes with.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from repoagent.history.graph import ADVANCE, COLOURS, columns, shorten, shown
from repoagent.history.graph_output import asset, markup, page, style
from repoagent.history.repository_map import Cluster, RepositoryMap, colour_folders

TITLE_SIZE = 16.0
_STEP, _PADDING, _TITLE_HEIGHT = 10.5, 9.0, 34.0  # pixels: between dots, inside the edge of a disc, above it
_LABEL_SIZE = 13.0
_TITLE_COLUMNS, _LABEL_COLUMNS = 22, 26
_MARGIN, _GAP = 12.0, 10.0
_ASPECT = 1.35
_DIRECTIONS = 36
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_LINKS_OF_DISC = 2


class Disc(NamedTuple):
    """A placed cluster: the centre and radius of its dots, and the radius of the circle that includes its title."""

    x: float
    y: float
    radius: float
    reach: float


def map_page(repository: RepositoryMap) -> str:
    """The whole page."""
    folders, colours = colour_folders(repository.files, COLOURS)
    clustered = sum(len(cluster.files) for cluster in repository.clusters)
    counts = (
        f"{_count(len(repository.files), 'file')} of {repository.alive:,}, "
        f"{_count(len(repository.clusters), 'cluster')}, {_count(len(repository.bridges), 'bridge')}, "
        f"from the newest {_count(repository.looked_at, 'commit')} of {repository.commit[:10]}; "
        f"{_count(len(repository.files) - clustered, 'file')} without a cluster"
    )
    title = markup(f"What changes together in {shown(repository.name)}")
    body = [
        f"<header>\n<div><h1>{title}</h1>\n<p>{counts}</p>\n",
        f'<p class="note">{markup(repository.note)}</p>\n' if repository.note else "",
        '</div>\n<label class="find">Find a file <input id="find" type="search" autocomplete="off" spellcheck="false">'
        '<output id="hits" aria-live="polite"></output></label>\n</header>\n<main>\n',
        '<ul class="legend" aria-label="Colours: folders">\n',
    ]
    entries = [(f"spot g{number}", shown(folder)) for number, folder in enumerate(folders)]
    entries += [(f"spot g{COLOURS}", "other folders"), ("ring", "bridge to another cluster")]
    for symbol, name in entries:
        body.append(
            '<li><svg class="neighbors" viewBox="0 0 12 12" aria-hidden="true">'
            f'<circle class="{symbol}" cx="6" cy="6" r="5"/></svg>{markup(shorten(name, 30))}</li>\n'
        )
    body += [
        '</ul>\n<div class="picture" tabindex="0" role="region" aria-label="Map">\n',
        "\n".join(_drawing(repository, colours)),
        '\n</div>\n<div>\n<section id="evidence" aria-live="polite" aria-label="File">\n<h2>A place to look</h2>\n'
        "<p>Point at a dot for its name and what it changes with. Tab moves between clusters, the arrow keys "
        "between files; click or Enter pins a file, Escape unpins it.</p>\n</section>\n",
        *_lists(repository),
        "</div>\n</main>\n<footer><p>Files that changed in the same commits; small and recent commits count "
        "more. A place to look, not something that must change.</p></footer>\n",
    ]
    data = {
        "files": [[shown(file.path), file.commits, file.cluster] for file in repository.files],
        "clusters": [shown(cluster.name) for cluster in repository.clusters],
        "links": [
            [*pair, together, round(score * 100)] for pair, (score, together) in repository.links.items()
        ],
    }
    rules = style() + asset("graph.css") + asset("map.css")
    return page(title, rules, body, script=asset("map.js"), data=data)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def place(repository: RepositoryMap) -> list[Disc]:
    """A disc for each cluster."""
    attraction = _attraction(repository)
    discs: list[Disc] = []
    for number, cluster in enumerate(repository.clusters):
        radius = _STEP * math.sqrt(len(cluster.files)) + _PADDING
        half_title = columns(_title(cluster)) * TITLE_SIZE * ADVANCE / 2
        reach = max(radius + _TITLE_HEIGHT / 2, math.hypot(half_title, radius)) + _GAP / 2
        partners = [(discs[other], weight) for other, weight in attraction[number].items() if other < number]
        total = sum(weight for _, weight in partners) or 1.0
        spots: list[tuple[float, float, float]] = []  # cost, x and y
        for disc in discs:
            for turn in range(_DIRECTIONS):
                angle = 2 * math.pi * turn / _DIRECTIONS
                x = disc.x + (disc.reach + reach) * math.cos(angle)
                y = disc.y + (disc.reach + reach) * math.sin(angle)
                distance = sum(weight * math.dist((x, y), other[:2]) for other, weight in partners) / total
                spots.append((0.5 * distance + math.hypot(x / _ASPECT, y), x, y))
        spots.sort(key=lambda spot: spot[0])
        x, y = next(
            (
                (x, y)
                for _, x, y in spots
                if all(math.dist((x, y), disc[:2]) >= disc.reach + reach - 0.01 for disc in discs)
            ),
            (0.0, 0.0),
        )
        discs.append(Disc(x, y, radius, reach))
    return [disc._replace(y=disc.y + _TITLE_HEIGHT / 2) for disc in discs]


def _attraction(repository: RepositoryMap) -> list[dict[int, float]]:
    """How strongly the files of each cluster change with those of the others."""
    attraction: list[dict[int, float]] = [defaultdict(float) for _ in repository.clusters]
    for (one, other), (score, _) in repository.links.items():
        first, second = repository.files[one].cluster, repository.files[other].cluster
        if first is not None and second is not None and first != second:
            attraction[first][second] += score
            attraction[second][first] += score
    return attraction


def _title(cluster: Cluster) -> str:
    """The name of a cluster, without its start if it is too long."""
    name = shown(cluster.name)
    if columns(name) <= _TITLE_COLUMNS:
        return name
    while columns(name) >= _TITLE_COLUMNS:
        name = name[1:]
    return f"…{name}"


def _place_dots(disc: Disc, members: Sequence[int], colours: Sequence[int]) -> dict[int, tuple[float, float]]:
    """The position of each dot: a sunflower with a sector per colour, in it the most changed files innermost."""
    spots = [
        (_STEP * math.sqrt(number + 0.5), (number * _GOLDEN_ANGLE) % (2 * math.pi))
        for number in range(len(members))
    ]
    spots.sort(key=lambda spot: spot[1])
    by_colour: defaultdict[int, list[int]] = defaultdict(list)
    for file in members:
        by_colour[colours[file]].append(file)
    dots: dict[int, tuple[float, float]] = {}
    for colour in sorted(by_colour, key=lambda colour: (colour < 0, colour)):
        sector = sorted(spots[len(dots) : len(dots) + len(by_colour[colour])])
        for file, (distance, angle) in zip(by_colour[colour], sector, strict=True):
            dots[file] = (disc.x + distance * math.cos(angle), disc.y + distance * math.sin(angle))
    return dots


def _drawing(repository: RepositoryMap, colours: Sequence[int]) -> Iterator[str]:
    """The map as an `svg` element; dots have `data-file`, discs `data-cluster`."""
    discs = place(repository)
    if not discs:
        yield '<p class="empty">No two files have changed together often enough for a cluster.</p>'
        return
    left = min(disc.x - disc.reach for disc in discs) - _MARGIN
    right = max(disc.x + disc.reach for disc in discs) + _MARGIN
    top = min(disc.y - disc.radius - _TITLE_HEIGHT for disc in discs) - _MARGIN
    bottom = max(disc.y + disc.radius for disc in discs) + _MARGIN
    width, height = f"{right - left:.0f}", f"{bottom - top:.0f}"
    yield (
        f'<svg class="neighbors map" viewBox="{left:.0f} {top:.0f} {width} {height}" width="{width}" '
        f'height="{height}" role="group" aria-label="Clusters of files">'
    )
    # A line from each disc to the two that it changes with most.
    attraction = _attraction(repository)
    pairs = {
        (min(one, other), max(one, other))
        for one, weights in enumerate(attraction)
        for other in sorted(weights, key=lambda other: (-weights[other], other))[:_LINKS_OF_DISC]
    }
    strongest = max((attraction[one][other] for one, other in pairs), default=1.0)
    for one, other in sorted(pairs):
        yield (
            f'<path class="between" stroke-width="{1 + 7 * attraction[one][other] / strongest:.1f}" '
            f'd="M{discs[one].x:.1f} {discs[one].y:.1f}L{discs[other].x:.1f} {discs[other].y:.1f}"/>'
        )
    dots: dict[int, tuple[float, float]] = {}
    bridges = {bridge.file for bridge in repository.bridges}
    for number, (disc, cluster) in enumerate(zip(discs, repository.clusters, strict=True)):
        label = markup(f"{shown(cluster.name)}, {_count(len(cluster.files), 'file')}")
        yield (
            f'<g class="disc" data-cluster="{number}" tabindex="0" role="button" aria-label="{label}">'
            f'<circle class="area" cx="{disc.x:.1f}" cy="{disc.y:.1f}" r="{disc.radius:.1f}"/>'
        )
        dots.update(_place_dots(disc, cluster.files, colours))
        most = max(repository.files[file].commits for file in cluster.files)
        for file in cluster.files:
            x, y = dots[file]
            radius = 2.8 + 3.6 * math.sqrt(repository.files[file].commits / most)
            classes = f"dot g{colours[file] % (COLOURS + 1)}{' bridge' * (file in bridges)}"
            yield f'<circle class="{classes}" data-file="{file}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        yield "</g>"
    for bridge in repository.bridges:  # a line to the edge of the second cluster
        x, y = dots[bridge.file]
        disc = discs[bridge.cluster]
        share = disc.radius / (math.dist((x, y), disc[:2]) or 1.0)
        end = f"{disc.x + (x - disc.x) * share:.1f} {disc.y + (y - disc.y) * share:.1f}"
        yield f'<path class="span" data-file="{bridge.file}" d="M{x:.1f} {y:.1f}L{end}"/>'
        yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="7.5"/>'
    yield from _labels(repository, discs, dots, (left, right))
    yield '<g id="own" aria-hidden="true"></g></svg>'


def _labels(
    repository: RepositoryMap,
    discs: Sequence[Disc],
    dots: Mapping[int, tuple[float, float]],
    bounds: tuple[float, float],
) -> Iterator[str]:
    """The titles of the discs, and the names of bridges that do not overlap other text."""
    taken: list[tuple[float, float, float, float]] = []  # left, top, right and bottom
    for disc, cluster in zip(discs, repository.clusters, strict=True):
        name = _title(cluster)
        half = columns(name) * TITLE_SIZE * ADVANCE / 2 + 3
        y = disc.y - disc.radius - 18
        taken.append((disc.x - half, y - TITLE_SIZE, disc.x + half, y - TITLE_SIZE + 30))
        at = f'x="{disc.x:.1f}" text-anchor="middle"'
        yield f'<text class="head" {at} y="{y:.1f}">{markup(name)}</text>'
        yield f'<text class="size dim" {at} y="{y + 13:.1f}">{len(cluster.files)}</text>'
    for bridge in repository.bridges:
        name = shorten(shown(repository.files[bridge.file].path.rpartition(b"/")[2]), _LABEL_COLUMNS)
        width = columns(name) * _LABEL_SIZE * ADVANCE
        shifts = {"start": 0.0, "middle": width / 2, "end": width}
        for dx, dy, anchor in ((11, 4, "start"), (-11, 4, "end"), (0, -11, "middle"), (0, 20, "middle")):
            x, y = dots[bridge.file][0] + dx, dots[bridge.file][1] + dy
            left, right = x - shifts[anchor] - 3, x - shifts[anchor] + width + 3
            above, below = y - _LABEL_SIZE, y - _LABEL_SIZE + 14
            inside = bounds[0] < left and right < bounds[1]
            if inside and all(right < w or e < left or below < n or s < above for w, n, e, s in taken):
                taken.append((left, above, right, below))
                yield f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{markup(name)}</text>'
                break


def _lists(repository: RepositoryMap) -> Iterator[str]:
    """The bridges, and the clusters with all of their files, for readers who do not use the picture."""
    paths = [markup(shown(file.path)) for file in repository.files]
    if repository.bridges:
        yield '<h2>Bridges</h2>\n<ol class="bridges">\n'
        for bridge in repository.bridges:
            first, second = repository.files[bridge.file].cluster or 0, bridge.cluster
            names = " ↔ ".join(markup(shown(repository.clusters[number].name)) for number in (first, second))
            partners = ", ".join(paths[partner] for partner in bridge.partners[:2])
            yield (
                f'<li><button type="button" data-to="{bridge.file}">{paths[bridge.file]}</button>'
                f"<small>{names}: with {partners}</small></li>\n"
            )
        yield "</ol>\n"
    yield '<h2>Clusters</h2>\n<table>\n<thead><tr><th scope="col">cluster</th><th scope="col">files</th></tr></thead>\n'
    yield "<tbody>\n"
    groups = [(shown(cluster.name), cluster.files) for cluster in repository.clusters]
    if alone := tuple(number for number, file in enumerate(repository.files) if file.cluster is None):
        groups.append(("in no cluster", alone))
    for name, members in groups:
        items = "".join(f"<li>{paths[file]}</li>" for file in members)
        yield (
            f'<tr><td class="file"><details><summary>{markup(name)}</summary><ul>{items}</ul></details></td>'
            f'<td class="number">{len(members)}</td></tr>\n'
        )
    yield "</tbody>\n</table>\n"
