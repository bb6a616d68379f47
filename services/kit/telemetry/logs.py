"""Structured JSON logs on standard error, one object a line, with the ids that tie them to a run and its trace."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import orjson
import structlog
from opentelemetry import baggage, trace

from services.kit.telemetry.names import ATTRIBUTE_PREFIX, BAGGAGE_FIELDS

EventDict = MutableMapping[str, Any]
_BAGGAGE_KEYS = tuple((field, ATTRIBUTE_PREFIX + field) for field in BAGGAGE_FIELDS)
# Libraries that log each request at INFO.
_CHATTY = ("httpx", "httpcore", "httpx2", "httpcore2", "openai", "uvicorn.access", "yoyo", "asyncio")


def configure_logs(service: str, level: str) -> None:
    """Sends structlog's and the standard library's logs through one JSON renderer."""

    def add_service(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        add_ids,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_dumps)],
        logger_factory=structlog.BytesLoggerFactory(file=sys.stderr.buffer),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=lambda event, **_: _dumps(event).decode()),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def add_ids(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Adds trace and span id, and the ids that travel in baggage."""
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
        event["span_id"] = f"{span.span_id:016x}"
    carried = baggage.get_all()
    for field, key in _BAGGAGE_KEYS:
        if key in carried and field not in event:
            event[field] = carried[key]
    return event


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """Returns a logger; events are short and constant, what varies goes in keyword arguments."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger())


def _dumps(event: object, **_: object) -> bytes:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # half of a surrogate pair, which models write and UTF-8 has not
        return json.dumps(event, default=str, skipkeys=True, ensure_ascii=False).encode("utf-8", "replace")
