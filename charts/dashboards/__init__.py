"""Grafana's dashboards as code: `python -m charts.dashboards` writes the JSON that the chart installs."""
