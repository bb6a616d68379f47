"""What a dashboard is made of, as data, and how Grafana is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.builders.bargauge import Panel as BarGaugePanel
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeriesPanel
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard

from charts.dashboards.promql import series

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "signalbox"
HEIGHT = 8
# Where `signalbox console --port 8420` serves pages, on the machine of whoever looks at the dashboard.
CONSOLE = "http://127.0.0.1:8420"
# What is looked at, as the console's pages take it.
_TIME = ("since=${__from:date:iso}", "until=${__to:date:iso}")


class Width(StrEnum):
    """How much of a row, of 24 columns, a panel takes."""

    QUARTER = "6"
    THIRD = "8"
    HALF = "12"
    WHOLE = "24"


class Kind(StrEnum):
    """How a panel shows its numbers."""

    GRAPH = "graph"
    NUMBER = "number"
    BARS = "bars"


@dataclass(frozen=True)
class Query:
    """A PromQL expression, and what Grafana calls its series; `traced` asks for the traces behind it."""

    expr: str
    legend: str = ""
    traced: bool = False


@dataclass(frozen=True)
class Link:
    """From a series to a page of the console; `by` is the series' label behind each field of the page."""

    title: str
    page: str
    by: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    within_time: bool = True

    @property
    def url(self) -> str:
        """Where it leads, as Grafana has it."""
        fields = [f"{name}={value}" for name, value in self.where.items()]
        fields += [f"{name}=${{__field.labels.{label}}}" for name, label in self.by.items()]
        fields += _TIME if self.within_time else ()
        return f"${{console}}{self.page}" + (f"?{'&'.join(fields)}" if fields else "")


@dataclass(frozen=True)
class Panel:
    """A panel: what it shows, and when that is a reason to worry."""

    title: str
    shows: str
    worry: str
    queries: Sequence[Query]
    unit: str = "short"
    width: Width = Width.HALF
    kind: Kind = Kind.GRAPH
    link: Link | None = None
    # From where on an alert or somebody's patience begins: a line.
    threshold: float | None = None


@dataclass(frozen=True)
class Row:
    """Panels that belong together."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Board:
    """A dashboard."""

    uid: str
    title: str
    about: str
    rows: Sequence[Row] = field(default_factory=tuple)
    # Fields in which whoever looks writes numbers that queries are held against: title and number, by name.
    numbers: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """Every panel, in order."""
        return [panel for row in self.rows for panel in row.panels]


def build(board: Board) -> dashboard.Dashboard:
    """Returns a board as Grafana has it."""
    made = (
        dashboards.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboards.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            dashboards.QueryVariable("namespace")
            .label("Namespace")
            .datasource(SOURCE)
            .query("label_values(signalbox_build_info, namespace)")
            .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .all_value(".*")
            .multi(True)
        )
        .with_variable(
            dashboards.TextBoxVariable("console").label("Console (signalbox console)").default_value(CONSOLE)
        )
        .link(
            dashboards.DashboardLink("Signalbox")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
    )
    made = made.annotation(_LimitsChanged())
    for name, (title, number) in board.numbers.items():
        made = made.with_variable(dashboards.TextBoxVariable(name).label(title).default_value(number))
    for row in board.rows:
        made = made.with_row(dashboards.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(_panel(panel))
    return made.build()


class _LimitsChanged(Builder[dashboard.AnnotationQuery], dashboard.AnnotationQuery):
    """Marks when an agent's limits changed: the value of its series is the time."""

    def __init__(self) -> None:
        changed = f"max by (agent) ({series('limits_changed_timestamp_seconds')}) * 1000"
        super().__init__("Limits changed", SOURCE, icon_color="purple", expr=changed)

    def build(self) -> dashboard.AnnotationQuery:
        """Returns itself."""
        return self

    def to_json(self) -> dict[str, object]:
        """Returns it with what Grafana's Prometheus knows beyond other sources."""
        title = "Limits of {{agent}} changed"
        return {**super().to_json(), "titleFormat": title, "step": "60s", "useValueForTime": True}


def _panel(panel: Panel) -> TimeSeriesPanel | StatPanel | BarGaugePanel:
    made = _kind(panel)
    made = (
        made.title(panel.title)
        .description(f"{panel.shows}\n\n**Worry when** {panel.worry}")
        .datasource(SOURCE)
        .unit(panel.unit)
        .min(0)
        .height(HEIGHT)
        .span(int(panel.width))
    )
    if panel.threshold is not None:
        steps = [dashboard.Threshold(color="green"), dashboard.Threshold(value=panel.threshold, color="red")]
        made = made.thresholds(dashboards.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
        if isinstance(made, TimeSeriesPanel):
            line = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
            made = made.thresholds_style(line)
    if panel.link:
        made = made.data_links([dashboards.DashboardLink(panel.link.title).url(panel.link.url).target_blank(True)])
    for number, query in enumerate(panel.queries):
        asked = Dataquery().expr(query.expr).ref_id(chr(ord("A") + number)).datasource(SOURCE)
        asked = asked.legend_format(query.legend or "__auto").exemplar(query.traced)
        made = made.with_target(asked.range() if panel.kind is Kind.GRAPH else asked.instant())
    return made


def _kind(panel: Panel) -> TimeSeriesPanel | StatPanel | BarGaugePanel:
    if panel.kind is Kind.NUMBER:
        return StatPanel()
    if panel.kind is Kind.BARS:
        return BarGaugePanel().orientation(common.VizOrientation.HORIZONTAL)
    legend = common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    return (
        TimeSeriesPanel()
        .fill_opacity(10)
        .show_points(common.VisibilityMode.NEVER)
        .legend(legend.display_mode(common.LegendDisplayMode.LIST))
    )
