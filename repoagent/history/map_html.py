"""The map of a repository as an HTML page: a disc of dots for each cluster, lines between discs, labels on bridges.

Discs are placed largest first, each touching another one without overlap, nearest to the clusters that it changes with.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.history.graph import ADVANCE, COLOURS, columns, shorten, shown
from repoagent.history.graph_output import markup, page, style
from repoagent.history.repository_map import Cluster, RepositoryMap, colour_folders

_STEP, _PAD, _TITLE = 10.5, 9.0, 34.0  # pixels: between dots, inside of a disc's edge, above it
_TITLE_SIZE, _LABEL_SIZE = 16.0, 13.0
_TITLE_COLUMNS, _LABEL_COLUMNS = 22, 26
_EDGE = 12.0
_GAP = 10.0
_WIDE = 1.35  # width of the map for its height
_ANGLES = 36
_TURN = math.pi * (3 - math.sqrt(5))  # the golden angle
_LINKS_OF_DISC = 2


@dataclass(frozen=True)
class Disc:
    """A cluster's place: the centre of its dots and their radius, and those of the circle that also holds its title."""

    x: float
    y: float
    radius: float
    reach: float


def map_page(found: RepositoryMap) -> str:
    """The whole page."""
    package = files("repoagent.history") / "pages"
    rules = "".join(package.joinpath(name).read_text(encoding="utf-8") for name in ("graph.css", "map.css"))
    script = package.joinpath("map.js").read_text(encoding="utf-8")
    folders, colours = colour_folders(found.files, COLOURS)
    title = markup(f"What changes together in {shown(found.name)}")
    clustered = sum(len(cluster.files) for cluster in found.clusters)
    said = (
        f"{_count(len(found.files), 'file')} of {found.alive:,}, {_count(len(found.clusters), 'cluster')}, "
        f"{_count(len(found.bridges), 'bridge')}, from the newest {_count(found.looked_at, 'commit')} "
        f"of {found.commit[:10]}; {_count(len(found.files) - clustered, 'file')} without a cluster"
    )
    body = [
        f"<header>\n<div><h1>{title}</h1>\n<p>{said}</p>\n",
        f'<p class="note">{markup(found.note)}</p>\n' if found.note else "",
        '</div>\n<label class="find">Find a file <input id="find" type="search" autocomplete="off" spellcheck="false">'
        '<output id="hits" aria-live="polite"></output></label>\n</header>\n<main>\n',
        *_legend(folders),
        '<div class="picture" tabindex="0" role="region" aria-label="Map">\n',
        drawing(found, colours),
        "\n</div>\n<div>\n",
        '<section id="evidence" aria-live="polite" aria-label="File">\n<h2>A place to look</h2>\n'
        "<p>Point at a dot for its name and what it changes with. Tab moves between clusters, the arrow keys "
        "between files; click or Enter pins a file, Escape unpins it.</p>\n</section>\n",
        *_bridges(found),
        *_table(found),
        "</div>\n</main>\n<footer><p>Files that changed in the same commits; small and recent commits count "
        "more. A place to look, not something that must change.</p></footer>\n",
    ]
    return page(title, style() + rules, body, script=script, data=_data(found))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _legend(folders: Sequence[bytes]) -> Iterator[str]:
    yield '<ul class="legend" aria-label="Colours: folders">\n'
    entries = [(f"spot g{number}", shown(folder)) for number, folder in enumerate(folders)]
    for kind, name in [
        *entries,
        (f"spot g{COLOURS}", "other folders"),
        ("ring", "bridge to another cluster"),
    ]:
        spot = f'<circle class="{kind}" cx="6" cy="6" r="5"/>'
        spot = f'<svg class="neighbors" viewBox="0 0 12 12" aria-hidden="true">{spot}</svg>'
        yield f"<li>{spot}{markup(shorten(name, 30))}</li>\n"
    yield "</ul>\n"


def drawing(found: RepositoryMap, colours: Sequence[int]) -> str:
    """The map as an `svg` element; dots have `data-file`, discs `data-cluster`."""
    discs = place(found)
    if not discs:
        return '<p class="empty">No two files have changed together often enough for a cluster.</p>'
    dots: dict[int, tuple[float, float]] = {}
    for disc, cluster in zip(discs, found.clusters, strict=True):
        dots.update(_dots(disc, cluster.files, colours))
    left = min(disc.x - disc.reach for disc in discs) - _EDGE
    right = max(disc.x + disc.reach for disc in discs) + _EDGE
    top = min(disc.y - disc.radius - _TITLE for disc in discs) - _EDGE
    bottom = max(disc.y + disc.radius for disc in discs) + _EDGE
    size = f'width="{right - left:.0f}" height="{bottom - top:.0f}"'
    box = f"{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}"
    parts = [
        f'<svg class="neighbors map" viewBox="{box}" {size} role="group" aria-label="Clusters of files">'
    ]
    parts += _between(found, discs)
    bridges = {bridge.file for bridge in found.bridges}
    for number, (disc, cluster) in enumerate(zip(discs, found.clusters, strict=True)):
        label = markup(f"{shown(cluster.name)}, {_count(len(cluster.files), 'file')}")
        parts.append(
            f'<g class="disc" data-cluster="{number}" tabindex="0" role="button" aria-label="{label}">'
            f'<circle class="area" cx="{disc.x:.1f}" cy="{disc.y:.1f}" r="{disc.radius:.1f}"/>'
        )
        most = max(found.files[file].commits for file in cluster.files)
        for file in cluster.files:
            x, y = dots[file]
            spot = 2.8 + 3.6 * math.sqrt(found.files[file].commits / most)
            kind = f"dot g{colours[file] % (COLOURS + 1)}{' bridge' * (file in bridges)}"
            parts.append(
                f'<circle class="{kind}" data-file="{file}" cx="{x:.1f}" cy="{y:.1f}" r="{spot:.1f}"/>'
            )
        parts.append("</g>")
    parts += _spans(found, discs, dots, (left, right))
    parts.append('<g id="own" aria-hidden="true"></g></svg>')
    return "\n".join(parts)


def place(found: RepositoryMap) -> list[Disc]:
    """A disc for each cluster."""
    pull = _pulls(found)
    discs: list[Disc] = []
    for number, cluster in enumerate(found.clusters):
        radius = _STEP * math.sqrt(len(cluster.files)) + _PAD
        title = columns(_title(cluster)) * _TITLE_SIZE * ADVANCE / 2
        reach = max(radius + _TITLE / 2, math.hypot(title, radius)) + _GAP / 2
        near = [(discs[other], weight) for other, weight in pull[number].items() if other < number]
        total = sum(weight for _, weight in near) or 1.0

        def cost(
            at: tuple[float, float], near: Sequence[tuple[Disc, float]] = near, total: float = total
        ) -> float:
            apart = sum(weight * math.dist(at, (disc.x, disc.y)) for disc, weight in near) / total
            return 0.5 * apart + math.hypot(at[0] / _WIDE, at[1])

        spots = [
            (
                disc.x + (disc.reach + reach) * math.cos(2 * math.pi * turn / _ANGLES),
                disc.y + (disc.reach + reach) * math.sin(2 * math.pi * turn / _ANGLES),
            )
            for disc in discs
            for turn in range(_ANGLES)
        ] or [(0.0, 0.0)]
        x, y = next(
            spot
            for spot in sorted(spots, key=cost)
            if all(math.dist(spot, (disc.x, disc.y)) >= disc.reach + reach - 0.01 for disc in discs)
        )
        discs.append(Disc(x, y, radius, reach))
    return [Disc(disc.x, disc.y + _TITLE / 2, disc.radius, disc.reach) for disc in discs]


def _title(cluster: Cluster) -> str:
    """The name of a cluster, of a long one its end."""
    name = shown(cluster.name)
    while columns(name) > _TITLE_COLUMNS:
        name = f"…{name[2 if name[0] == '…' else 1 :]}"
    return name


def _pulls(found: RepositoryMap) -> list[dict[int, float]]:
    """How strongly the files of each cluster change with those of the others."""
    pull: list[dict[int, float]] = [defaultdict(float) for _ in found.clusters]
    for (one, other), (score, _) in found.links.items():
        here, there = found.files[one].cluster, found.files[other].cluster
        if here is not None and there is not None and here != there:
            pull[here][there] += score
            pull[there][here] += score
    return pull


def _dots(disc: Disc, members: Sequence[int], colours: Sequence[int]) -> dict[int, tuple[float, float]]:
    """The place of each dot: a sunflower, cut into a sector for each colour, in it the most changed files innermost."""
    spots = [
        (_STEP * math.sqrt(number + 0.5), (number * _TURN) % (2 * math.pi)) for number in range(len(members))
    ]
    spots.sort(key=lambda spot: spot[1])
    by_colour: defaultdict[int, list[int]] = defaultdict(list)
    for file in members:
        by_colour[colours[file]].append(file)
    found: dict[int, tuple[float, float]] = {}
    start = 0
    for colour in sorted(by_colour, key=lambda colour: (colour < 0, colour)):
        own = by_colour[colour]
        sector = sorted(spots[start : start + len(own)])
        start += len(own)
        for file, (distance, angle) in zip(own, sector, strict=True):
            found[file] = (disc.x + distance * math.cos(angle), disc.y + distance * math.sin(angle))
    return found


def _between(found: RepositoryMap, discs: Sequence[Disc]) -> Iterator[str]:
    """A line from each disc to the two that it changes with most."""
    pull = _pulls(found)
    pairs = {
        (min(one, other), max(one, other))
        for one, near in enumerate(pull)
        for other in sorted(near, key=lambda other: (-near[other], other))[:_LINKS_OF_DISC]
    }
    most = max((pull[one][other] for one, other in pairs), default=1.0)
    for one, other in sorted(pairs):
        here, there = discs[one], discs[other]
        yield (
            f'<path class="between" stroke-width="{1 + 7 * pull[one][other] / most:.1f}" '
            f'd="M{here.x:.1f} {here.y:.1f}L{there.x:.1f} {there.y:.1f}"/>'
        )


def _spans(
    found: RepositoryMap,
    discs: Sequence[Disc],
    dots: Mapping[int, tuple[float, float]],
    bounds: tuple[float, float],
) -> Iterator[str]:
    """A line from each bridge to the edge of its second cluster; above them the titles of the discs, and the names of
    the bridges where they hide no other text."""
    for bridge in found.bridges:
        x, y = dots[bridge.file]
        there = discs[bridge.cluster]
        away = math.dist((x, y), (there.x, there.y)) or 1.0
        end = [a + (b - a) * there.radius / away for a, b in ((there.x, x), (there.y, y))]
        yield f'<path class="span" data-file="{bridge.file}" d="M{x:.1f} {y:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'
        yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="7.5"/>'
    taken = []
    for disc, cluster in zip(discs, found.clusters, strict=True):
        name = _title(cluster)
        at = f'x="{disc.x:.1f}" text-anchor="middle"'
        y = disc.y - disc.radius - 18
        taken.append(_box((disc.x, y), "middle", name, _TITLE_SIZE, 30))
        yield f'<text class="head" {at} y="{y:.1f}">{markup(name)}</text>'
        yield f'<text class="size dim" {at} y="{y + 13:.1f}">{len(cluster.files)}</text>'
    for bridge in found.bridges:
        x, y = dots[bridge.file]
        name = shorten(shown(found.files[bridge.file].path.rpartition(b"/")[2]), _LABEL_COLUMNS)
        for at_x, at_y, anchor in (
            (x + 11, y + 4, "start"), (x - 11, y + 4, "end"), (x, y - 11, "middle"), (x, y + 20, "middle"),
        ):  # fmt: skip
            box = _box((at_x, at_y), anchor, name, _LABEL_SIZE, 14)
            if (
                bounds[0] < box[0]
                and box[2] < bounds[1]
                and all(
                    box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1]
                    for other in taken
                )
            ):
                taken.append(box)
                yield f'<text class="label" x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}">{markup(name)}</text>'
                break


def _box(
    at: tuple[float, float], anchor: str, text: str, size: float, height: float
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text with its baseline `at` a point."""
    x, y = at
    width = columns(text) * size * ADVANCE
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left - 3, y - size, left + width + 3, y - size + height


def _bridges(found: RepositoryMap) -> Iterator[str]:
    if not found.bridges:
        return
    yield '<h2>Bridges</h2>\n<ol class="bridges">\n'
    for bridge in found.bridges:
        file = found.files[bridge.file]
        own = found.clusters[file.cluster or 0].name
        partners = ", ".join(shown(found.files[one].path) for one in bridge.partners[:2])
        yield (
            f'<li><button type="button" data-to="{bridge.file}">{markup(shown(file.path))}</button>'
            f"<small>{markup(shown(own))} ↔ {markup(shown(found.clusters[bridge.cluster].name))}: "
            f"with {markup(partners)}</small></li>\n"
        )
    yield "</ol>\n"


def _table(found: RepositoryMap) -> Iterator[str]:
    """The clusters with all of their files, for who does not use the picture."""
    heads = '<tr><th scope="col">cluster</th><th scope="col">files</th></tr>'
    yield f"<h2>Clusters</h2>\n<table>\n<thead>{heads}</thead>\n<tbody>\n"
    groups = [(shown(cluster.name), cluster.files) for cluster in found.clusters]
    alone = tuple(number for number, file in enumerate(found.files) if file.cluster is None)
    for name, members in [*groups, *([("in no cluster", alone)] if alone else [])]:
        listed = "".join(f"<li>{markup(shown(found.files[file].path))}</li>" for file in members)
        yield (
            f'<tr><td class="file"><details><summary>{markup(name)}</summary><ul>{listed}</ul></details></td>'
            f'<td class="number">{len(members)}</td></tr>\n'
        )
    yield "</tbody>\n</table>\n"


def _data(found: RepositoryMap) -> object:
    return {
        "files": [[shown(file.path), file.commits, file.cluster] for file in found.files],
        "clusters": [shown(cluster.name) for cluster in found.clusters],
        "links": [[*pair, together, round(score * 100)] for pair, (score, together) in found.links.items()],
    }
