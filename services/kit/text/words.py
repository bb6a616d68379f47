"""Values as words: states, times, durations, grounds. Everything that came from elsewhere is made safe to print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import caller_pb2, costs_pb2, incident_investigation_pb2, policy_pb2, runs_pb2, table_pb2

from services.kit.text.json_text import json_text
from services.kit.text.printing import printable

# Of a limit that nobody set.
DEFAULT = "default"
A_MOMENT = "a date and time such as 2026-03-02T09:30, or a time ago, such as 30m, 2h, 7d or yesterday"
_PAST = re.compile(r"(\d{1,6})\s*([smhdw])")
_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS_AGO = {"today": 0, "yesterday": 1}
_ORIGINS = {
    policy_pb2.LIMIT_ORIGIN_DEFAULT: DEFAULT,
    policy_pb2.LIMIT_ORIGIN_FILE: "policy file",
    policy_pb2.LIMIT_ORIGIN_CALLER: "caller",
    policy_pb2.LIMIT_ORIGIN_ADDED: "default of a newer release",
    policy_pb2.LIMIT_ORIGIN_UNKNOWN: "another release; no effect here",
}


def code_words(code: str) -> str:
    """Returns a reason code, or how a call ended, in words: `DATABASE_DOWN` is `database down`."""
    return (code.lower() if code.isupper() else code).replace("_", " ")


def state_name(state: int) -> str:
    """`SUCCEEDED` for `RUN_STATE_SUCCEEDED`; a number that this version does not know stays one."""
    names = {value: name for name, value in runs_pb2.RunState.items()}
    return names.get(state, str(int(state))).removeprefix("RUN_STATE_")


def parse_state(name: str) -> runs_pb2.RunState:
    """The state of a name such as `succeeded`. Raises ValueError that lists the names there are."""
    wanted = name.upper().replace("-", "_")
    known = {each.removeprefix("RUN_STATE_"): value for each, value in runs_pb2.RunState.items() if value}
    if wanted not in known:
        raise ValueError(f"{name!r} is not a state; there are: {', '.join(known).lower()}")
    return cast(runs_pb2.RunState, known[wanted])


# From here on hundredths of a second say nothing.
LONG_S = 120


def duration(milliseconds: float) -> str:
    """`0.4 ms`, `35 ms`, `1.25 s`, `3 min 20 s` or `2 h 5 min`."""
    if milliseconds < 1:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < LONG_S:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def moment(timestamp: Timestamp) -> str:
    """A time in this machine's zone; empty when unset."""
    if not timestamp.ByteSize():
        return ""
    return timestamp.ToDatetime(tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def parse_moment(text: str, now: datetime | None = None) -> Timestamp:
    """The time of a text such as `2026-03-02T09:30`, `2h` (so long before now) or `yesterday` (its beginning).

    `2h before 2026-03-02T09:30Z` is so long before that time, as links of alerts have it.

    What names no offset from UTC is in this machine's zone, as `moment` shows times. Raises ValueError.
    """
    stamp = Timestamp()
    try:
        span, before, moment_text = text.partition(" before ")
        at = _instant(moment_text) if before else now or datetime.now(UTC)
        stamp.FromDatetime(_past(span.strip().lower(), at) or _instant(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time: give {A_MOMENT}") from error
    return stamp


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _past(text: str, now: datetime) -> datetime | None:
    """What is so long before now; None for a text that says it in another way."""
    if text in _DAYS_AGO:
        day = now.astimezone().date() - timedelta(days=_DAYS_AGO[text])
        return datetime(day.year, day.month, day.day).astimezone(UTC)
    found = _PAST.fullmatch(text)
    return now.astimezone(UTC) - timedelta(**{_SPANS[found[2]]: int(found[1])}) if found else None


def several(count: int, one: str) -> str:
    """`1 run`, `2 runs`, `1,204 runs`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def elapsed(run: runs_pb2.Run) -> str:
    """How long a run took or has taken."""
    if not run.HasField("start_time"):
        return ""
    start = run.start_time.ToDatetime(tzinfo=UTC)
    end = run.end_time.ToDatetime(tzinfo=UTC) if run.HasField("end_time") else datetime.now(UTC)
    return duration((end - start).total_seconds() * 1000)


def tokens(usage: caller_pb2.TokenUsage) -> str:
    """`812 tokens (700 in, 112 out)`."""
    if not usage.total_tokens:
        return "no tokens"
    return f"{usage.total_tokens:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out)"


def money(amount: float, currency: str) -> str:
    """`12.30 EUR`; below a hundredth `0.0012 EUR`, and without a currency the number alone."""
    text = f"{amount:,.2f}" if amount >= 0.01 or not amount else f"{amount:.2g}"
    return f"{text} {currency}".strip()


def priced(costs: costs_pb2.Costs) -> tuple[str, int]:
    """What the models that have prices cost, empty where none has, and the tokens of those that have none."""
    known = [each.cost for each in costs.models if each.HasField("cost")]
    unpriced = sum(each.token_usage.total_tokens for each in costs.models if not each.HasField("cost"))
    return money(sum(known), costs.currency) if known else "", unpriced


def costs_words(costs: costs_pb2.Costs) -> str:
    """`0.42 EUR`, and what has no price beside it; empty where no model took tokens."""
    cost, unpriced = priced(costs)
    return ", and ".join(filter(None, (cost, f"{unpriced:,} tokens of models without a price" if unpriced else "")))


def grounds(struct: Struct) -> str:
    """Facts and limits as `iteration_count = 3, max_iterations = 3`, by name; `no facts` when a rule read none."""
    values: Mapping[str, object] = MessageToDict(struct)
    return ", ".join(f"{printable(name)} = {fact(value)}" for name, value in sorted(values.items())) or "no facts"


def struct_json(struct: Struct) -> str:
    """A struct as indented JSON by name, with whole numbers as such and nothing that a terminal would obey."""
    return json_text(MessageToDict(struct))


def fact(value: object) -> str:
    """One fact: whole numbers without a fraction, text in quotes."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}" if not value.is_integer() else f"{value:.0f}"
    if isinstance(value, list):
        return "[" + ", ".join(fact(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{printable(name)}: {fact(item)}" for name, item in value.items()) + "}"
    return f'"{printable(str(value))}"'


def limit_text(value: struct_pb2.Value) -> str:
    """A limit of a policy: a number, a flag, or a text such as a role."""
    match value.WhichOneof("kind"):
        case "string_value":
            return printable(value.string_value) or "none"
        case "bool_value":
            return "yes" if value.bool_value else "no"
        case _:
            return number(value.number_value)


def origin_name(origin: int) -> str:
    """Where a limit comes from; `unknown` for an origin that this version does not know."""
    return {int(each): name for each, name in _ORIGINS.items()}.get(origin, "unknown")


def number(value: float) -> str:
    """A limit or a count: whole numbers in full, with commas."""
    return f"{value:,.0f}" if value.is_integer() else f"{value:,g}"


def cell(value: table_pb2.Cell) -> str:
    """One value of a result table; NULL when it is none."""
    kind = value.WhichOneof("value")
    if kind is None:
        return "NULL"
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "double_value":
        return f"{value.double_value:g}"
    return str(value.int_value) if kind == "int_value" else printable(value.text_value)


def graph_path(path: incident_investigation_pb2.GraphPathEvidence) -> str:
    """A path of a graph as `(Service web) -[CALLS]-> (Service api)`."""
    parts = [f"({path.nodes[0].label} {path.nodes[0].key})"] if path.nodes else []
    for edge, node in zip(path.edges, path.nodes[1:], strict=False):
        arrow = f"<-[{edge.type}]-" if edge.backwards else f"-[{edge.type}]->"
        parts += [arrow, f"({node.label} {node.key})"]
    return " ".join(parts)


def shown_labels(labels: Mapping[str, str]) -> str:
    """Labels as `key=value key=value`, in the order of their keys."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
