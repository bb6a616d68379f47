"""Curves in the documentation: an SVG for each, as `docs/curves/<name>.svg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pygal
from pygal.style import CleanStyle

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "curves"
Points = Sequence[tuple[float, float]]


def draw(name: str, title: str, *, across: str, up: str, lines: Mapping[str, Points], by_tens: bool = False) -> Path:
    """Writes a curve for each line and returns the file; `by_tens` spaces powers of ten evenly across.

    The title says what was measured and on what, `across` and `up` what the axes are, with their units.
    """
    chart = pygal.XY(
        title=title,
        x_title=across,
        y_title=up,
        style=CleanStyle(font_family="sans-serif", title_font_size=14, label_font_size=12, legend_font_size=12),
        no_prefix=True,
        width=800,
        height=400,
        legend_at_bottom=True,
        show_dots=True,
        dots_size=2,
        # What is measured at nothing is drawn from nothing.
        range=(0, 1.1 * max((value for points in lines.values() for _, value in points), default=1.0)),
    )
    if by_tens:
        places = sorted({place for points in lines.values() for place, _ in points})
        chart.x_labels = [{"label": f"{place:,.0f}", "value": number} for number, place in enumerate(places)]
        lines = {line: [(places.index(place), value) for place, value in points] for line, points in lines.items()}
    for line, points in lines.items():
        chart.add(line, list(points))
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.svg"
    file.write_bytes(ElementTree.tostring(_without_scripts(chart.render_tree())))
    return file


def _without_scripts(picture: ElementTree.Element) -> ElementTree.Element:
    """Takes out what would make the picture a program; pages that show it run nothing."""
    for parent in list(picture.iter()):
        for child in [each for each in parent if str(each.tag).endswith("script")]:
            parent.remove(child)
    return picture
