"""The few forms that queries take."""

from __future__ import annotations

PREFIX = "signalbox_"
INTERVAL = "$__rate_interval"
NAMESPACE = 'namespace=~"$namespace"'
# Which service an address is, whatever the scraper calls its targets.
SERVICE_OF = f"on (instance) group_left (service) max by (instance, service) ({PREFIX}build_info{{{NAMESPACE}}})"


def series(name: str, *matchers: str) -> str:
    """Returns a selector of one of our metrics; a matcher is written as PromQL has it."""
    return f"{PREFIX}{name}{{{','.join([NAMESPACE, *matchers])}}}"


def rate(name: str, *matchers: str) -> str:
    """Returns the increase of a counter a second."""
    return f"rate({series(name, *matchers)}[{INTERVAL}])"


def total(by: str, of: str) -> str:
    """Returns a sum by labels, which are parted by commas."""
    return f"sum by ({by}) ({of})"


def by_service(labels: str, of: str) -> str:
    """Returns a sum by the service that tells of it, and further labels."""
    return f"sum by ({', '.join(filter(None, ['service', labels]))}) ({of} * {SERVICE_OF})"


def quantile(share: float, by: str, name: str, *matchers: str) -> str:
    """Returns a quantile of a histogram by labels."""
    labels = ", ".join(filter(None, ["le", by]))
    return f"histogram_quantile({share}, sum by ({labels}) ({rate(f'{name}_bucket', *matchers)}))"


def share(part: str, whole: str) -> str:
    """Returns a part of a whole, 0 where there is nothing of the whole."""
    return f"({part}) / (({whole}) > 0) or ({whole}) * 0"
