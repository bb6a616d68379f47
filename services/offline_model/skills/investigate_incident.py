"""The skill behind `signalbox-offline-incident`: follows dependencies to where the symptoms begin, and looks why.

It reads who depends on whom, then what changed among those services when the incident began, then the configuration of
the one that nothing behind it explains. Where that shows nothing, it says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from services.kit.tools.names import EXECUTE_DB_QUERY, FIND_FILE, QUERY_GRAPH, READ_FILE
from services.offline_model import incidents
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.graph_goals.reading import label_of
from services.offline_model.incidents import Cause, Row, Service, instant, number
from services.offline_model.prompt_data import IncidentToExplain, as_prompt
from services.offline_model.tool_results import QueryResult, read_code, read_files, read_paths, read_result
from services.offline_model.vocabulary import Vocabulary

CONCLUDE: Final = "conclude"
DEEPEST: Final = 4
MOST_FILES: Final = 4


def investigate_incident(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Asks for what is missing, or hands in what it comes to."""
    given = as_prompt(IncidentToExplain, conversation.data)
    if given is None:
        return Answer("I was shown no incident.")
    case = _Case(conversation, given, vocabulary)
    missing = [] if given.problems else case.missing()
    if missing and conversation.tools:
        return Answer(calls=tuple(missing))
    conclusion = case.without_cause("What I came to was refuted.") if given.problems else case.conclusion()
    if CONCLUDE in conversation.tools:
        return Answer(calls=(Call(CONCLUDE, conclusion),))
    return Answer(json.dumps(conclusion))


class _Case:
    """An incident, and all that was found about it so far."""

    def __init__(self, conversation: Conversation, given: IncidentToExplain, vocabulary: Vocabulary) -> None:
        self._conversation = conversation
        self._incident = given.incident
        self._words = words = vocabulary.incidents
        self._label = label_of(next(iter(vocabulary.edges.get(words.depends, ("",)))))
        # By the service that a way leads to, the shortest.
        self._ways: dict[str, list[str]] = {given.incident.service: [given.incident.service]}
        self._behind: dict[str, set[str]] = {}
        for way in read_paths(conversation.results_of(QUERY_GRAPH)):
            self._ways.setdefault(way[-1], way)
            for at, service in enumerate(way):
                self._behind.setdefault(service, set()).update(way[at + 1 :])
        asked = (words, given.incident.started_at, sorted(self._ways))
        self._deviations = incidents.deviations(*asked) if words.measurements else ""
        self._deployments = incidents.deployments(*asked) if words.deployments else ""
        self._rose = [row for row in self._rows(self._deviations) if number(row["after"]) > number(row["before"])]

    def missing(self) -> list[Call]:
        """Returns the calls that bring what is still missing; none where all is there that can be."""
        for step in (self._who_depends(), self._what_changed(), self._what_is_there()):
            calls = [call for call in step if call.tool in self._conversation.tools and not self._made(call)]
            if calls:
                return calls
        return []

    def _who_depends(self) -> list[Call]:
        if not self._words.depends:
            return []
        start = {"label": self._label, "where": [{"property": "key", "value": self._incident.service}]}
        step = {"type": self._words.depends, "label": self._label}
        paths = [Call(QUERY_GRAPH, {**start, "follow": [step] * depth}) for depth in range(1, DEEPEST + 1)]
        return [*paths, Call(FIND_FILE, {"name": "*.yaml"})]

    def _what_changed(self) -> list[Call]:
        return [Call(EXECUTE_DB_QUERY, {"query": each}) for each in (self._deviations, self._deployments) if each]

    def _what_is_there(self) -> list[Call]:
        files = read_files(self._conversation.results_of(FIND_FILE))
        calls = []
        for service, symptom in self._origins.items():
            own = [path for path in files if service in path.split("/")]
            calls += [Call(READ_FILE, {"path": path}) for path in own[:MOST_FILES]]
            calls.append(Call(EXECUTE_DB_QUERY, {"query": self._onset(symptom)}))
        return calls

    @cached_property
    def _origins(self) -> dict[str, Row]:
        """The services with symptoms of which nothing that they depend on has any, each with its first symptom."""
        sick = {row["service"]: row for row in reversed(self._rose) if row["metric"] in self._words.symptoms}
        return {each: row for each, row in sorted(sick.items()) if not sick.keys() & self._behind.get(each, set())}

    def conclusion(self) -> dict[str, Any]:
        """Returns the final answer."""
        lines = list(read_code(self._conversation.results_of(READ_FILE)))
        deployed = self._rows(self._deployments)
        for service, symptom in self._origins.items():
            began = next(iter(self._rows(self._onset(symptom))), {})
            onset = instant(began.get("recorded_at", ""))
            rose = {row["metric"]: row for row in self._rose if row["service"] == service}
            cause = Service(service, onset, rose, lines, deployed).cause(self._words) if onset else None
            if cause is not None:
                return self._with_cause(service, cause, symptom, began)
        where = ", ".join(self._origins) or "no service that it depends on"
        return self.without_cause(f"Symptoms begin at {where}, and nothing that I can read differs there before them.")

    def without_cause(self, words: str) -> dict[str, Any]:
        """Returns the final answer of an incident whose cause the data does not show."""
        looked = ", ".join(sorted(self._ways))
        explanation = f"{words} I looked at measurements, deployments and configuration of {looked}."
        advice = ["Look at what is not measured: logs, traffic from outside, what others changed."]
        return {
            "cause_found": False, "root_cause": "", "confidence": 0.0, "explanation": explanation, "evidence": [],
            "recommendations": advice, "timeline": [_moment(self._incident.started_at, "the incident was noticed")],
        }  # fmt: skip

    def _with_cause(self, service: str, cause: Cause, symptom: Row, began: Row) -> dict[str, Any]:
        way, metric = self._ways[service], symptom["metric"]
        claim = f"{metric} of {service} was {began['value']} from {began['recorded_at']} on"
        evidence = [_from_query(claim, self._onset(symptom), began)]
        if len(way) > 1:
            nodes = [{"label": self._label, "key": key} for key in way]
            through = {"nodes": nodes, "edges": [{"type": self._words.depends} for _ in way[1:]]}
            evidence.append({"claim": f"{way[0]} depends on {service}", "graph_path": through})
        times = {began["recorded_at"]: f"{metric} of {service} rises"}
        if row := cause.measured:
            claim = f"{row['metric']} of {service} rose from {row['before']} to {row['after']}"
            evidence.append(_from_query(claim, self._deviations, row))
        if row := cause.deployment:
            claim = f"{service} was deployed at {row['deployed_at']}: {row['summary']}"
            evidence.append(_from_query(claim, self._deployments, row))
            times[row["deployed_at"]] = f"{service} {row['version']} is deployed"
        if at := cause.setting:
            lines = {"file": at.file, "first_line": at.number, "last_line": at.number, "quote": at.text.strip()}
            evidence.append({"claim": f"{at.file} says {at.text.strip()}", "code": lines})
        moments = [_moment(time, event) for each, event in times.items() if (time := instant(each))]
        moments.append(_moment(self._incident.started_at, "the incident was noticed"))
        along = f"{' → '.join(way)}: " if len(way) > 1 else ""
        return {
            "cause_found": True, "root_cause": cause.words, "confidence": cause.confidence,
            "explanation": f"{along}the symptoms begin at {service}, and nothing behind it has any.",
            "evidence": evidence, "recommendations": [cause.advice],
            "timeline": sorted(moments, key=lambda moment: moment["time"]),
        }  # fmt: skip

    def _onset(self, symptom: Row) -> str:
        return incidents.onset(self._words, self._incident.started_at, symptom)

    def _rows(self, query: str) -> list[Row]:
        """The rows that a query gave; none where it was refused, or was not made."""
        made = [call.result for call in self._conversation.calls if query and call.arguments.get("query") == query]
        result = read_result(made[-1] or "") if made else None
        columns, rows = (result.columns, result.rows) if isinstance(result, QueryResult) else ((), ())
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _made(self, call: Call) -> bool:
        return any(each.tool == call.tool and each.arguments == call.arguments for each in self._conversation.calls)


def _from_query(claim: str, query: str, row: Row) -> dict[str, Any]:
    return {"claim": claim, "query": {"query": query, "row": dict(row)}}


def _moment(time: datetime, event: str) -> Mapping[str, str]:
    return {"time": time.astimezone(UTC).isoformat(), "event": event}
