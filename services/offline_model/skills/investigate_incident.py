"""The skill behind `signalbox-offline-incident`: follows dependencies to where the symptoms begin, and looks why.

It reads who depends on whom, then what changed among those services when the incident began, then the configuration of
the one that nothing behind it explains. Where that shows nothing, it says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from services.kit.tools.names import EXECUTE_DB_QUERY, FIND_FILE, QUERY_GRAPH, READ_FILE
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.incidents import causes, findings
from services.offline_model.incidents.queries import Queries, find_dependencies
from services.offline_model.prompt_data import IncidentToExplain, as_prompt
from services.offline_model.tool_results import read_files
from services.offline_model.vocabulary import IncidentVocabulary, Vocabulary

CONCLUDE: Final = "conclude"
DEEPEST: Final = 4
MOST_FILES: Final = 4


def investigate_incident(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Asks for what is missing, or hands in what it comes to."""
    given = as_prompt(IncidentToExplain, conversation.data)
    if given is None:
        return Answer("I was shown no incident.")
    case = _Case(conversation, given, vocabulary.incidents)
    missing = [] if given.problems else case.missing()
    if missing and conversation.tools:
        return Answer(calls=tuple(missing))
    conclusion = case.without_cause("What I came to was refuted.") if given.problems else case.conclusion()
    if CONCLUDE in conversation.tools:
        return Answer(calls=(Call(CONCLUDE, conclusion),))
    return Answer(json.dumps(conclusion))


class _Case:
    """An incident, and all that was found about it so far."""

    def __init__(self, conversation: Conversation, given: IncidentToExplain, words: IncidentVocabulary) -> None:
        self.conversation = conversation
        self.incident = given.incident
        self.words = words
        self.dependencies = find_dependencies(given.graph)
        self.graph = findings.read_graph(conversation.results_of(QUERY_GRAPH))
        self.services = sorted({self.incident.service, *self.graph.below(self.incident.service)})
        self.queries = Queries(given.tables, self.incident.started_at, self.services, words)
        self.files = read_files(conversation.results_of(FIND_FILE))
        self.settings = findings.read_settings(conversation.results_of(READ_FILE))
        self.deviations = causes.deviations(self._rows(self.queries.deviations))
        self.deployed = self._rows(self.queries.deployments)
        self.origins = causes.origins(self.incident.service, self.graph, self.deviations, words)

    def missing(self) -> list[Call]:
        """Returns the calls that bring what is still missing; none where all is there that can be."""
        for step in (self._who_depends(), self._what_changed(), self._what_is_there()):
            calls = [call for call in step if call.tool in self.conversation.tools and not self._made(call)]
            if calls:
                return calls
        return []

    def _who_depends(self) -> list[Call]:
        edge = self.dependencies
        if edge is None:
            return []
        start = {"label": edge.label, "where": [{"property": "key", "value": self.incident.service}]}
        step = {"type": edge.type, "label": edge.label}
        paths = [Call(QUERY_GRAPH, {**start, "follow": [step] * depth}) for depth in range(1, DEEPEST + 1)]
        return [*paths, Call(FIND_FILE, {"name": "*.yaml"})]

    def _what_changed(self) -> list[Call]:
        wanted = (self.queries.deviations, self.queries.deployments)
        return [Call(EXECUTE_DB_QUERY, {"query": query}) for query in wanted if query]

    def _what_is_there(self) -> list[Call]:
        calls = []
        for service in self.origins:
            files = [path for path in self.files if service in path.split("/")]
            calls += [Call(READ_FILE, {"path": path}) for path in files[:MOST_FILES]]
            calls += [
                Call(EXECUTE_DB_QUERY, {"query": self.queries.onset(each)}) for each in self._symptoms_of(service)
            ]
        return calls

    def conclusion(self) -> dict[str, Any]:
        """Returns the final answer."""
        for service in self.origins:
            symptom = next(iter(self._symptoms_of(service)), None)
            onset = self._onset(symptom) if symptom else None
            if symptom is None or onset is None:
                continue
            found = causes.cause_at(service, onset[0], self.deviations, self.settings, self.deployed, self.words)
            if found is not None:
                return self._with_cause(service, found, symptom, onset)
        where = ", ".join(self.origins) or "no service that it depends on"
        return self.without_cause(f"Symptoms begin at {where}, and nothing that I can read differs there before them.")

    def without_cause(self, words: str) -> dict[str, Any]:
        """Returns the final answer of an incident whose cause the data does not show."""
        looked = ", ".join(self.services)
        explanation = f"{words} I looked at measurements, deployments and configuration of {looked}."
        advice = ["Look at what is not measured: logs, traffic from outside, what others changed."]
        return {
            "cause_found": False, "root_cause": "", "confidence": 0.0, "explanation": explanation, "evidence": [],
            "recommendations": advice, "timeline": [self._moment(self.incident.started_at, "the incident was noticed")],
        }  # fmt: skip

    def _with_cause(
        self, service: str, cause: causes.Cause, symptom: causes.Deviation, onset: tuple[datetime, findings.Row]
    ) -> dict[str, Any]:
        path = self.graph.way(self.incident.service, service)
        began, row = onset
        claim = f"{symptom.metric} of {service} was {row['value']} from {row['recorded_at']} on"
        evidence = [self._from_query(claim, self.queries.onset(symptom), row)]
        if len(path) > 1 and self.dependencies:
            through = causes.on_the_way(path, self.dependencies)
            evidence.append({"claim": f"{path[0]} depends on {service}", "graph_path": through})
        measured = next(
            (each for each in self.deviations if (each.service, each.metric) == (service, cause.metric)), None
        )
        if measured:
            claim = f"{measured.metric} of {service} rose from {measured.row['before']} to {measured.row['after']}"
            evidence.append(self._from_query(claim, self.queries.deviations, measured.row))
        timeline = [self._moment(began, f"{symptom.metric} of {service} rises")]
        if cause.deployment:
            claim = f"{service} was deployed at {cause.deployment['deployed_at']}: {cause.deployment['summary']}"
            evidence.append(self._from_query(claim, self.queries.deployments, cause.deployment))
            time = findings.instant(cause.deployment["deployed_at"])
            timeline += [self._moment(time, f"{service} {cause.deployment['version']} is deployed")] if time else []
        if cause.setting:
            at = cause.setting
            lines = {"file": at.file, "first_line": at.line, "last_line": at.line, "quote": at.text}
            evidence.append({"claim": f"{at.file} says {at.text}", "code": lines})
        timeline.append(self._moment(self.incident.started_at, "the incident was noticed"))
        way = f"{' → '.join(path)}: " if len(path) > 1 else ""
        return {
            "cause_found": True, "root_cause": cause.words, "confidence": cause.confidence,
            "explanation": f"{way}the symptoms begin at {service}, and nothing behind it has any.",
            "evidence": evidence, "recommendations": [cause.advice],
            "timeline": sorted(timeline, key=lambda moment: moment["time"]),
        }  # fmt: skip

    def _onset(self, symptom: causes.Deviation) -> tuple[datetime, findings.Row] | None:
        for row in self._rows(self.queries.onset(symptom)):
            if time := findings.instant(row.get("recorded_at", "")):
                return time, row
        return None

    def _symptoms_of(self, service: str) -> Sequence[causes.Deviation]:
        own = (each for each in self.deviations if each.service == service)
        return [each for each in own if each.metric in self.words.symptoms][:1]

    def _from_query(self, claim: str, query: str, row: findings.Row) -> dict[str, Any]:
        return {"claim": claim, "query": {"query": query, "row": dict(row)}}

    def _moment(self, time: datetime, event: str) -> dict[str, str]:
        return {"time": time.astimezone(UTC).isoformat(), "event": event}

    def _rows(self, query: str) -> list[findings.Row]:
        made = [call.result for call in self.conversation.calls if call.arguments.get("query") == query and call.result]
        return findings.read_rows(made[-1]) if made else []

    def _made(self, call: Call) -> bool:
        return any(each.tool == call.tool and each.arguments == call.arguments for each in self.conversation.calls)
