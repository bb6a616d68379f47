"""Where the nodes and edges of a small graph are drawn: in layers from its first node down, with few crossings.

The method is Sugiyama's: edges that lead back are turned round, nodes get the layer behind their farthest predecessor,
long edges get a place in every layer that they pass, and layers are sorted by the means of their neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

NODE_WIDTH, NODE_HEIGHT = 168, 42
LAYER_GAP = 66
NODE_GAP, BEND_GAP = 30, 34
MARGIN = 24
SWEEPS = 12
LOOP = 34
Link = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True)
class PlacedEdge:
    """An edge as a path of SVG, and the middle of it for a label."""

    path: str
    label: Point


@dataclass(frozen=True)
class Drawing:
    """Centres of nodes, paths of edges, and the size of it all, in pixels."""

    width: float
    height: float
    nodes: Mapping[str, Point]
    edges: Mapping[Link, PlacedEdge]


@dataclass
class _Layers:
    """Nodes and bends by layer, in order, and what is joined to what in the layer above and the one below."""

    rows: list[list[str]]
    above: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    below: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def draw(nodes: Sequence[str], links: Sequence[Link]) -> Drawing:
    """Places a graph's nodes and edges; nodes that nothing leads to stand beside the first."""
    loops = [link for link in links if link[0] == link[1]]
    turned = _closing(nodes, [link for link in links if link not in loops])
    forward = [(b, a) if (a, b) in turned else (a, b) for a, b in links if a != b]
    rank = _ranks(nodes, forward)
    layers = _Layers([[node for node in nodes if rank[node] == level] for level in range(max(rank.values()) + 1)])
    chains = {}
    for link, (top, bottom) in zip([link for link in links if link not in loops], forward, strict=True):
        chains[link] = _chain(layers, link, top, bottom, rank)
    _sort(layers)
    x = _columns(layers, {node for link in loops for node in link})
    left = min(x[each] - _half(each) for row in layers.rows for each in row) - MARGIN
    places = {
        each: (x[each] - left, MARGIN + level * (NODE_HEIGHT + LAYER_GAP) + NODE_HEIGHT / 2)
        for level, row in enumerate(layers.rows)
        for each in row
    }
    edges = _paths(chains, turned, places)
    edges |= {link: _loop(places[link[0]]) for link in loops}
    right = max(px + _half(each) + (LOOP + 12 if (each, each) in edges else 0) for each, (px, _) in places.items())
    height = max(py for _, py in places.values()) + NODE_HEIGHT / 2 + MARGIN
    return Drawing(right + MARGIN, height, {node: places[node] for node in nodes}, edges)


def _closing(nodes: Sequence[str], links: Sequence[Link]) -> set[Link]:
    """Returns the edges that lead back, in the order in which the nodes are given, which is how agents are read."""
    place = {node: number for number, node in enumerate(nodes)}
    return {link for link in links if place[link[0]] > place[link[1]]}


def _ranks(nodes: Sequence[str], forward: Sequence[Link]) -> dict[str, int]:
    """Returns the layer of each node: one more than the lowest of what leads to it."""
    rank = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for source, target in forward:
            rank[target] = max(rank[target], rank[source] + 1)
    return rank


def _chain(layers: _Layers, link: Link, top: str, bottom: str, rank: Mapping[str, int]) -> list[str]:
    """Gives an edge a bend in every layer that it passes; returns node, bends and node, from the top down."""
    bends = [f"{link[0]}\n{link[1]}\n{level}" for level in range(rank[top] + 1, rank[bottom])]
    for bend, level in zip(bends, range(rank[top] + 1, rank[bottom]), strict=True):
        layers.rows[level].append(bend)
    chain = [top, *bends, bottom]
    for upper, lower in pairwise(chain):
        layers.below[upper].append(lower)
        layers.above[lower].append(upper)
    return chain


def _sort(layers: _Layers) -> None:
    """Sorts every layer by the mean place of its neighbours, downwards and upwards in turn; keeps the best."""
    best, fewest = [list(row) for row in layers.rows], _crossings(layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row, other in pairwise(layers.rows if down else layers.rows[::-1]):
            _sort_by(row, other, layers.above if down else layers.below)
        if (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(row) for row in layers.rows], crossings
    layers.rows[:] = best


def _sort_by(row: Sequence[str], other: list[str], neighbours: Mapping[str, Sequence[str]]) -> None:
    """Sorts a layer by the mean place that its neighbours have in the one beside it; who has none stays."""
    place = {each: number for number, each in enumerate(row)}
    mean = {each: float(number) for number, each in enumerate(other)}
    for each in other:
        if near := [place[one] for one in neighbours.get(each, ())]:
            mean[each] = sum(near) / len(near)
    other.sort(key=mean.__getitem__)


def _crossings(layers: _Layers) -> int:
    found = 0
    for upper, lower in pairwise(layers.rows):
        place = {each: number for number, each in enumerate(lower)}
        ends = [sorted(place[one] for one in layers.below[each]) for each in upper]
        flat = [end for each in ends for end in each]
        found += sum(first > second for number, first in enumerate(flat) for second in flat[number:])
    return found


def _half(each: str) -> float:
    return BEND_GAP / 4 if "\n" in each else NODE_WIDTH / 2


def _columns(layers: _Layers, looped: set[str]) -> dict[str, float]:
    """Returns where each node and bend stands: near the mean of its neighbours, as far as those beside it allow."""
    x: dict[str, float] = {}
    for row in layers.rows:
        at = 0.0
        for each in row:
            x[each] = at
            at += NODE_WIDTH + NODE_GAP
        for each in row:
            x[each] -= (at - NODE_WIDTH - NODE_GAP) / 2
    for sweep in range(SWEEPS * 4):
        rows = layers.rows if sweep % 2 == 0 else layers.rows[::-1]
        for row in rows:
            wanted = []
            for each in row:
                near = [x[one] for one in (*layers.above[each], *layers.below[each])]
                wanted.append(sum(near) / len(near) if near else x[each])
            _spread(row, wanted, x, looped)
    return x


def _spread(row: Sequence[str], wanted: Sequence[float], x: dict[str, float], looped: set[str]) -> None:
    """Puts a layer where it wants to be, from the left and from the right, and takes the middle of both."""

    def apart(one: str, other: str) -> float:
        return _half(one) + _half(other) + NODE_GAP + (LOOP if one in looped else 0)

    from_left, from_right = list(wanted), list(wanted)
    for number in range(1, len(row)):
        from_left[number] = max(wanted[number], from_left[number - 1] + apart(row[number - 1], row[number]))
    for number in range(len(row) - 2, -1, -1):
        from_right[number] = min(wanted[number], from_right[number + 1] - apart(row[number], row[number + 1]))
    for each, left, right in zip(row, from_left, from_right, strict=True):
        x[each] = (left + right) / 2


def _paths(
    chains: Mapping[Link, Sequence[str]], turned: set[Link], places: Mapping[str, Point]
) -> dict[Link, PlacedEdge]:
    """Draws the edges; those that meet at a side of a node are spread over it, in the order of where they go."""
    leaving: dict[tuple[str, bool], list[tuple[float, Link]]] = defaultdict(list)
    for link, chain in chains.items():
        leaving[chain[0], True].append((places[chain[1]][0], link))
        leaving[chain[-1], False].append((places[chain[-2]][0], link))
    ports: dict[tuple[Link, bool], Point] = {}
    for (node, is_below), ends in leaving.items():
        x, y = places[node]
        step = min(26.0, (NODE_WIDTH - 36) / len(ends))
        for number, (_, link) in enumerate(sorted(ends)):
            offset = (number - (len(ends) - 1) / 2) * step
            ports[link, is_below] = x + offset, y + (NODE_HEIGHT / 2 if is_below else -NODE_HEIGHT / 2)
    return {
        link: _curve([ports[link, True], *(places[bend] for bend in chain[1:-1]), ports[link, False]], link in turned)
        for link, chain in chains.items()
    }


def _curve(points: Sequence[Point], upwards: bool) -> PlacedEdge:
    """Draws a curve through points, upright in each of them."""
    ordered = points[::-1] if upwards else points
    path = [f"M{ordered[0][0]:.1f},{ordered[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(ordered):
        bend = (y1 - y0) * 0.5
        path.append(f"C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}")
    # Beside each other there are often one way and the way back: their labels are not.
    middle = max(1, len(ordered) // 2)
    (x0, y0), (x1, y1) = ordered[middle - 1], ordered[middle]
    label = (x0 + (x1 - x0) * 0.2, y0 + (y1 - y0) * 0.28)
    return PlacedEdge(" ".join(path), label)


def _loop(place: Point) -> PlacedEdge:
    """Draws an edge from a node to itself, at its right side."""
    x, y = place[0] + NODE_WIDTH / 2, place[1]
    far = x + LOOP
    path = f"M{x:.1f},{y - 10:.1f} C{far:.1f},{y - 22:.1f} {far:.1f},{y + 22:.1f} {x:.1f},{y + 10:.1f}"
    return PlacedEdge(path, (x + LOOP * 0.75, y))
