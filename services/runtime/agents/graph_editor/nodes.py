"""Nodes of `graph_editor`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from signalbox.v1 import guard_pb2, tools_pb2
from signalbox_routing.table import StateUpdate

from services.kit.models.prompts import data_block, words
from services.kit.models.records import UnreadableAnswer
from services.kit.outcome import Outcome
from services.kit.statements.check import denies, speaks_of_amounts, unsupported
from services.kit.statements.material import Material
from services.kit.telemetry.logs import get_logger
from services.kit.tools.effects import plain
from services.kit.tools.names import (
    ADD_EDGE,
    ADD_NODE,
    CYPHER_QUERY,
    DELETE_EDGE,
    DELETE_NODE,
    PREVIEW_CHANGES,
    QUERY_GRAPH,
    READ_CHANGES,
    UNDO_CHANGE,
    UPDATE_PROPS,
)
from services.runtime.agents.context_budget import lines_within, once_tighter, records_within
from services.runtime.agents.graph_editor.change_set import checked
from services.runtime.agents.graph_editor.diagnosis import diagnose
from services.runtime.agents.graph_editor.escalation import composed
from services.runtime.agents.graph_editor.found import table_of
from services.runtime.agents.graph_editor.goal import GOAL, PLAN, GoalSpec, StepPlan, left_undone
from services.runtime.agents.graph_editor.planning import (
    BASES,
    FORETOLD,
    NO_PROBLEM,
    NOTHING_WRITTEN,
    NothingToUndo,
    carried_out_last,
    change_missing,
    find_graph_again,
    is_write,
    make_plan,
    plan_undo,
    preview,
    problem,
    unapproved_changes,
)
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.routing import SIMPLE, is_destructive
from services.runtime.agents.graph_editor.state import (
    APPROVAL,
    FAILURE,
    NO_WORDS,
    NOT_APPLIED,
    OK,
    RANDOM,
    UNKNOWN,
    Clarification,
    GraphEditorState,
    Operation,
    PerformedOperation,
    Problem,
    Reply,
)
from services.runtime.agents.graph_editor.wording import FOUND, answer_of, not_touched
from services.runtime.agents.quoting import cut
from services.runtime.agents.refusals import INVALID_ARGUMENTS, UNKNOWN_TOOL, no_such_tool
from services.runtime.agents.screening import ALLOWED, BLOCKED, screened
from services.runtime.agents.signatures import signatures
from services.runtime.calls.chat_model import ChatModel, ModelCall, whole_text
from services.runtime.calls.guard_client import GuardClient
from services.runtime.calls.told_answer import ToldAnswer
from services.runtime.calls.tool_client import ToolClient, ToolDescription
from services.runtime.calls.wordings import note_wording
from services.runtime.errors import (
    BudgetSpent,
    DependencyAway,
    ModelFailed,
    ModelRefused,
    NodeTimedOut,
    ServiceFailed,
)
from services.runtime.routing.asking import GRAPH_CHANGE_SET, Answerers, Subject, ask_person
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import COMPLETED, NEEDS_REVIEW

log = get_logger()
# Outcomes of a run that did nothing, by the rule that ended its work; any other is not done.
_UNDONE = {"previewed": Outcome.PREVIEWED, "declined": Outcome.DECLINED}
WRITING_TOOLS: Final = (ADD_NODE, ADD_EDGE, UPDATE_PROPS, DELETE_NODE, DELETE_EDGE)
READING_TOOLS: Final = (QUERY_GRAPH, CYPHER_QUERY, READ_CHANGES, PREVIEW_CHANGES)
TOOLS: Final = (*WRITING_TOOLS, *READING_TOOLS, UNDO_CHANGE)
LONGEST_TEXT: Final = 20_000
LONGEST_PROBLEM: Final = 2000
_NO_CHANGE: Final = "The goal asks for a change of the graph, and the plan for it changed nothing."
# What was changed is told from the recorded steps, and never in a model's words.
_TELLS_OF_A_CHANGE: Final = re.compile(
    r"\b(?:created|added|deleted|removed|updated|changed|renamed|moved|linked|connected|assigned|marked|merged|"
    r"modified|successfully|is now|are now|(?:has|have) been|set (?:it |them )?to|"
    r"(?:i|we)(?:'ve| have)? (?:closed|set|made|reopened|resolved)|"
    r"erstellt|angelegt|hinzugef\u00fcgt|gel\u00f6scht|entfernt|ge\u00e4ndert|aktualisiert|verschoben|verbunden|zugewiesen|"
    r"markiert|erfolgreich|(?:ist|sind) (?:jetzt|nun)|"
    r"cread[oa]s?|a\u00f1adid[oa]s?|eliminad[oa]s?|borrad[oa]s?|cambiad[oa]s?|actualizad[oa]s?|asignad[oa]s?|marcad[oa]s?|"
    r"undone|reverted|restored|rolled back|r\u00fcckg\u00e4ngig|revertid[oa]s?|deshech[oa]s?|"
    r"conectad[oa]s?|(?:ha|han) sido|ahora est\u00e1n?)\b",
    re.IGNORECASE,
)
# How a call ends of which it is not known what came of it.
UNANSWERED: Final = (BudgetSpent, DependencyAway, NodeTimedOut, ServiceFailed)
# From which attempt on a reading of the goal is shown these.
HISTORY_FROM: Final = 2


class GraphEditorNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        guard: GuardClient,
        graph: ToolClient,
        parse_model: ChatModel,
        plan_model: ChatModel,
        answer_model: ChatModel,
        policy: GraphEditorPolicy,
    ) -> None:
        self._guard = guard
        self._graph = graph
        self._parse_model = parse_model
        self._plan_model = plan_model
        self._answer_model = answer_model
        self._policy = policy

    async def parse_goal(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Has the goal screened before anything else touches it, then reads it; plans the one call of a simple one.

        Raises DependencyAway, also when the guard gives no verdict.
        """
        if state.get("undo_run_id"):
            return {"screening": NO_WORDS, **await self._read_undo(state, context)}
        if state.get("screening") == ALLOWED:
            return await self._read_goal(state, context)
        screening = await screened(self._guard, context, state["goal"], guard_pb2.TEXT_KIND_GOAL)
        if screening["screening"] != ALLOWED:
            return screening
        return {**screening, **await self._read_goal(state, context)}

    async def _read_goal(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Reads the goal; each attempt is shown more than the last."""
        await find_graph_again(self._graph, context)
        attempt = state.get("parse_attempts", 0) + 1
        catalog = await self._catalog(context)

        async def ask(characters: int) -> GoalSpec:
            messages = _parse_messages(state, catalog, attempt, characters)
            return await GOAL.ask(self._parse_model, "parse_goal", messages)

        try:
            spec = await once_tighter(ask, self._policy.context_characters)
        except UnreadableAnswer as error:
            update = _failed(state, problem("unreadable_goal", f"The goal could not be read: {error}."))
            return {**update, "goal_spec": {}, "parse_attempts": attempt}
        read = spec.model_dump(exclude={"operation"})
        update = {"goal_spec": read, "parse_attempts": attempt, "problem": NO_PROBLEM}
        if spec.complexity == SIMPLE and spec.operation is None:
            read["complexity"] = "complex"
        elif spec.complexity == SIMPLE and spec.operation is not None and spec.in_scope:
            last = carried_out_last(state)
            update["plan"] = await make_plan(self._graph, context, [spec.operation], goal_reached=True, after=last)
            update["position"] = 0
        return update

    async def plan_step(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Plans the next operations; has no effects."""
        await find_graph_again(self._graph, context)
        catalog = await self._catalog(context)

        async def ask(characters: int) -> StepPlan:
            given = {
                **_catalog_told(catalog, characters),
                "goal": state["goal"],
                "clarifications": state.get("clarifications") or [],
                "intent": state["goal_spec"]["intent"],
                "constraints": state["goal_spec"].get("constraints", []),
                "done": _done(state, characters),
                "went_wrong": _went_wrong(state),
                "advice": state.get("advice") or [],
            }
            return await PLAN.ask(self._plan_model, "plan_step", _messages("plan", given))

        try:
            asked = await once_tighter(ask, self._policy.context_characters)
        except UnreadableAnswer as error:
            return _failed(state, problem("unreadable_plan", f"The plan could not be read: {error}.", "plan"))
        if not asked.operations and not (asked.goal_reached and state.get("done")):
            wrong = "The plan has no operation, and nothing was done before it."
            return _failed(state, problem("empty_plan", wrong, "plan"))
        if _planned_no_change(state) and not any(is_write(each.tool, each.arguments) for each in asked.operations):
            return _failed(state, problem(NOTHING_WRITTEN, _NO_CHANGE, "plan"))
        plan = await make_plan(
            self._graph, context, asked.operations, goal_reached=asked.goal_reached, after=carried_out_last(state)
        )
        return {"plan": plan, "position": 0, "problem": NO_PROBLEM}

    async def route_tool(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Checks every operation of the plan, and makes the diff that it would make."""
        catalog = await self._catalog(context, undoing=bool(state.get("undo_run_id")))
        operations = state["plan"]["operations"]
        for operation in operations:
            if found := _unusable(operation, catalog):
                return _failed(state, found)
        diff = await preview(self._graph, context, operations)
        changed = unapproved_changes(state, state["plan"], diff)
        for step in diff:
            # All of a run is taken back, or nothing; and nobody is asked for what would be refused.
            asks = changed > self._policy.max_unapproved_changes or is_destructive(step["tool"], step["arguments"])
            matters = asks or state.get("undo_run_id")
            if matters and not state.get("preview") and step["result"] not in FORETOLD:
                return _failed(state, problem(step["result"], step["text"], step["tool"], step["arguments"]))
        return {"diff": diff, "unapproved_changes": changed, "problem": NO_PROBLEM}

    async def call_tool(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Does the next operation of the plan, from state only, under its own key.

        Raises DependencyAway where its outcome is not known: then it is asked for again, under the same key; and
        ServiceFailed where nobody can tell it any more.
        """
        operations = state["plan"]["operations"]
        if state["position"] >= len(operations):
            return {"outcome": OK, "iteration_count": 1}
        operation = operations[state["position"]]
        tool, arguments = operation["tool"], operation["arguments"]
        try:
            response = await self._graph.call(context, tool, arguments, operation["operation_id"])
            return self._came_to(state, operation, response)
        except ServiceFailed as error:
            # A refusal says nothing of attempts before it whose answers were lost.
            kept = await self._graph.look_up(context, operation["operation_id"])
            if kept is None:
                wrong = problem(error.metadata.get("cause", error.reason), error.message, tool, arguments)
                return {**_failed(state, wrong), "outcome": NOT_APPLIED, "iteration_count": 1}
        return self._came_to(state, operation, kept)

    async def evaluate(self, state: GraphEditorState, _context: NodeContext) -> StateUpdate:
        """Judges whether the operation did what was meant; an empty result of a query is an answer."""
        if state["position"] >= len(state["plan"]["operations"]):
            return {"met": True, "problem": NO_PROBLEM}
        step = state["last_step"]
        if wrong := _not_meant(step):
            return {**_failed(state, wrong), "met": False}
        return {
            "met": True,
            "problem": NO_PROBLEM,
            "failures": 0,
            "done": [step],
            "position": state["position"] + 1,
        }

    async def diagnose(self, state: GraphEditorState, _context: NodeContext) -> StateUpdate:
        """Classifies the last failure, before any model is asked."""
        kind = diagnose(state)
        # One for each failure, by which `diagnose` tells those that count; the same key again is meant to be the same.
        seen = ["" if kind == RANDOM else state["problem"]["call"]]
        return {"diagnosis": kind, "seen_failures": seen}

    async def escalate(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Composes what to tell the caller or to ask a person; pauses for nobody."""
        catalog = await self._catalog(context)
        escalation = composed(context.led_by, state, sorted(catalog), self._policy)
        is_question = escalation["about"] not in ("", APPROVAL)
        return {"escalation": escalation, "questions_asked": state.get("questions_asked", 0) + is_question}

    async def ask_person(self, state: GraphEditorState, _context: NodeContext) -> StateUpdate:
        """Pauses until a person has answered, or their time is up, then once more for others; does nothing else."""
        asked = state["escalation"]
        # A release that knew no others composed it without whom to ask, and what to show.
        changes = asked.get("changes")
        # What no answer leads to is to ask others, or the end.
        again = "reply" in state and state["reply"]["expired"]
        answer = ask_person(
            asked["text"],
            asked["options"],
            expires_in_s=self._policy.question_lifetime_s,
            any_text=asked["any_text"],
            of=self._answerers(state, again=again),
            about=Subject(asked["plan_hash"], {GRAPH_CHANGE_SET: changes} if changes else None),
        )
        about, text = asked["about"], answer.text
        declined = self._policy.expiry_declines if answer.expired else text == asked["no"]
        reply = Reply(
            about=about,
            text=text,
            declined=declined,
            expired=answer.expired,
            others_left=answer.expired and not again and self._policy.escalation_role != "",
            input_request_id=answer.input_request_id,
        )
        update: StateUpdate = {"reply": reply}
        if answer.expired:
            return update
        if declined:
            return update
        if about == APPROVAL:
            operations = [each["operation_id"] for each in state["plan"]["operations"]]
            return {**update, "approved": [asked["plan_hash"]], "approved_operations": operations}
        if about == FAILURE:
            return {**update, "advice": [text]}
        return {**update, "clarifications": [Clarification(question=asked["text"], about=about, answer=text)]}

    def _answerers(self, state: GraphEditorState, *, again: bool) -> Answerers:
        asked = state["escalation"]
        for_caller, roles = asked.get("for_caller", True), asked.get("roles", [])
        if not again:
            return Answerers(for_caller, roles)
        more = list(dict.fromkeys([*roles, self._policy.escalation_role]))
        return Answerers(for_caller, more, escalated_from=state["reply"]["input_request_id"])

    async def answer(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        """Says what was done, from the recorded steps; what was found is worded by a model, or shown as it came."""
        rule = context.led_by
        done = state.get("done") or []
        text = answer_of(rule, state)
        found = [step["text"] for step in done if step["result"] == FOUND]
        if found and rule == "goal_complete":
            text = f"{text}\n{await self._worded(state, found)}".strip()
        reached = _reached(rule, state)
        if reached is Outcome.DONE and (left := await asyncio.to_thread(_left_undone, state)):
            reached, text = Outcome.PARTLY, f"{text}\n{not_touched(left)}"
        # A refusal is an answer, as it is to a question.
        status = NEEDS_REVIEW if state.get("stop_reason") and rule != BLOCKED else COMPLETED
        return {"answer": text, "reached": reached.value, "status": status}

    def _came_to(
        self, state: GraphEditorState, operation: Operation, response: tools_pb2.CallToolResponse
    ) -> StateUpdate:
        """Returns what an operation came to by its answer. Raises ServiceFailed for one that can't be read."""
        tool, arguments = operation["tool"], operation["arguments"]
        if response.HasField("error"):
            said = response.error
            wrong = problem(said.reason, said.message, tool, arguments, retryable=said.retryable)
            return {**_failed(state, wrong), "outcome": NOT_APPLIED, "iteration_count": 1}
        with self._graph.reading(f"run {tool}"):
            return {"outcome": OK, "last_step": _step(operation, response.output), "iteration_count": 1}

    async def _worded(self, state: GraphEditorState, found: list[str]) -> str:
        results = "\n".join(found)
        said = [state["goal"], *(each["answer"] for each in state.get("clarifications") or ())]
        # A line is a result.
        lines = [len(text.splitlines()) for text in found]
        material = Material(tables=[table_of(found)], texts=said, results=found, counts=[*lines, sum(lines)])
        asked = Material(texts=["1"], labels=said)

        def problems(words: str) -> list[str]:
            kinds = [problem.kind for problem in unsupported(words, material)]
            tells_of_change = _TELLS_OF_A_CHANGE.search(words) and not _TELLS_OF_A_CHANGE.search(results)
            return [*kinds, "change"] if tells_of_change else kinds

        told = ToldAnswer.of("answer", lambda: lambda sentence: not problems(sentence))

        async def ask(characters: int) -> tuple[AIMessage, ModelCall]:
            given = {"goal": state["goal"], "results": lines_within(found, characters)}
            return await self._answer_model.ask("answer", _messages("answer", given), heard=told)

        try:
            answer, _ = await once_tighter(ask, self._policy.context_characters)
        except (ModelFailed, ModelRefused, DependencyAway, BudgetSpent) as error:
            if told:
                told.withdraw()
            log.warning("what was found could not be put into words", error=error.message)
            return results
        worded = whole_text(answer)
        kinds = await asyncio.to_thread(problems, worded)
        says_nothing = not unsupported(worded, asked, most=1) and not material.is_spoken_of(worded)
        if not kinds and says_nothing and speaks_of_amounts(worded) and not (denies(worded) and denies(results)):
            kinds = ["none"]
        if worded:
            note_wording(self._answer_model.name, kinds)
        kept = "" if kinds else worded
        if told:
            told.stands(kept)
        return kept or results

    async def _read_undo(self, state: GraphEditorState, context: NodeContext) -> StateUpdate:
        spec = GoalSpec(intent="undo", effect="writes", complexity="simple", confidence=1.0, in_scope=True)
        update: StateUpdate = {"goal_spec": spec.model_dump(exclude={"operation"}), "problem": NO_PROBLEM}
        try:
            plan = await plan_undo(self._graph, context, state["undo_run_id"])
        except NothingToUndo as error:
            return {**update, **_failed(state, problem(error.reason, error.message, UNDO_CHANGE))}
        return {**update, "plan": plan, "position": 0}

    async def _catalog(self, context: NodeContext, *, undoing: bool = False) -> dict[str, ToolDescription]:
        """Returns the tools that a model may plan with, and the one that undoes where that is what is asked for."""
        catalog = await self._graph.catalog(context)
        return {
            name: tool
            for name, tool in catalog.items()
            if name in TOOLS and (not tool.for_platform or (undoing and name == UNDO_CHANGE))
        }


def _parse_messages(
    state: GraphEditorState, catalog: Mapping[str, ToolDescription], attempt: int, characters: int
) -> list[BaseMessage]:
    given: dict[str, Any] = {
        **_catalog_told(catalog, characters),
        "goal": state["goal"],
        "clarifications": state.get("clarifications") or [],
    }
    if attempt >= HISTORY_FROM:
        # Also so that no attempt is asked in the words of another, where the same went wrong.
        given["attempt"] = attempt
        given["went_wrong"] = _went_wrong(state)
        given["done"] = _done(state, characters)
    return _messages("parse", given)


def outcome_unknown(error: Exception) -> StateUpdate | None:
    """Returns what an operation comes to whose answer was lost for good; None for any other failure."""
    return {"outcome": UNKNOWN} if isinstance(error, UNANSWERED) else None


def _failed(state: GraphEditorState, wrong: Problem) -> StateUpdate:
    return {"problem": wrong, "failures": state.get("failures", 0) + 1}


def _unusable(operation: Operation, catalog: Mapping[str, ToolDescription]) -> Problem | None:
    """Returns what is wrong with an operation before it is asked for."""
    name, arguments = operation["tool"], operation["arguments"]
    tool = catalog.get(name)
    if tool is None:
        return problem(UNKNOWN_TOOL, no_such_tool(name, sorted(catalog)), name)
    wrong = best_match(Draft202012Validator(tool.input_schema).iter_errors(arguments))
    if wrong is None:
        return None
    where = ".".join(map(str, wrong.absolute_path))
    message = f"The arguments of {name} don't fit: {where + ': ' if where else ''}{wrong.message[:300]}."
    return problem(INVALID_ARGUMENTS, message, name, arguments)


def _not_meant(step: PerformedOperation) -> Problem | None:
    """Returns in which way a step did something else than was meant."""
    tool, arguments = step["tool"], step["arguments"]
    if step["differs"]:
        what = ", ".join(step["differs"])
        return problem("already_there", f"{step['text']} It is not as it should be in: {what}.", tool, arguments)
    if tool == CYPHER_QUERY and arguments.get("write") is True and step["result"] == "unchanged":
        return problem("matched_nothing", "The query matched nothing, and so changed nothing.", tool, arguments)
    return None


def _step(operation: Operation, output: tools_pb2.ToolOutput) -> PerformedOperation:
    data = plain(output.data)
    reads = operation["tool"] in READING_TOOLS and operation["arguments"].get("write") is not True
    return checked(
        PerformedOperation(
            operation_id=operation["operation_id"],
            tool=operation["tool"],
            arguments=operation["arguments"],
            result=data.get("result", FOUND) if reads else data["result"],
            text=output.text[:LONGEST_TEXT],
            change=data.get("change", {}),
            differs=data.get("differs", []),
        )
    )


def _reached(rule: str, state: GraphEditorState) -> Outcome:
    """Returns how far the goal was reached by a run that ended its work by this rule."""
    if rule == "goal_complete":
        takes_back = state.get("undo_run_id")
        has_changed = any(step["change"] for step in state.get("done") or ())
        return Outcome.NOT_DONE if takes_back and not has_changed else Outcome.DONE
    if state.get("done") and not change_missing(state):
        return Outcome.PARTLY
    return _UNDONE.get(rule, Outcome.NOT_DONE)


def _left_undone(state: GraphEditorState) -> list[str]:
    """Returns what the goal of a change names, and no step has; what a person said since may have changed the goal."""
    done = state.get("done") or []
    told = state.get("clarifications") or state.get("advice") or state.get("undo_run_id")
    if told or not any(is_write(step["tool"], step["arguments"]) for step in done):
        return []
    return left_undone(state["goal"], json.dumps(done, ensure_ascii=False))


def _messages(name: str, given: Mapping[str, Any]) -> list[BaseMessage]:
    """Returns a prompt whose words are the same in every call."""
    return [SystemMessage(words(__package__, name)), HumanMessage(data_block(given))]


def _catalog_told(catalog: Mapping[str, ToolDescription], characters: int) -> dict[str, list[str]]:
    """Returns tools, and labels and edge types as the tools that read say them.

    It goes before the goal: what is the same in every run is then a prefix, which providers keep.
    """
    notes = next((tool.notes for tool in catalog.values() if tool.notes), "")
    tools = signatures(catalog.values(), without=BASES)
    return {"tools": tools, "graph": lines_within(notes.splitlines(), characters)}


def _planned_no_change(state: GraphEditorState) -> bool:
    """Tells whether a plan was to reach a goal that writes, and did not change anything."""
    plan = state.get("plan")
    ended = plan is not None and plan["goal_reached"] and state.get("position", 0) >= len(plan["operations"])
    return ended and change_missing(state)


def _went_wrong(state: GraphEditorState) -> dict[str, str]:
    if _planned_no_change(state):
        return {"reason": NOTHING_WRITTEN, "message": _NO_CHANGE}
    found = state.get("problem") or NO_PROBLEM
    return {name: cut(found[name], LONGEST_PROBLEM) for name in ("reason", "message") if found[name]}


def _done(state: GraphEditorState, characters: int) -> list[dict[str, Any]]:
    """Returns what was done so far, the last of it in full."""
    return records_within([_shown(step) for step in state.get("done") or ()], characters)


def _shown(step: PerformedOperation) -> dict[str, Any]:
    return {"tool": step["tool"], "arguments": step["arguments"], "result": step["result"], "text": step["text"]}
