"""What each tool that writes would change, by the graph that it sees. Nothing is written here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.graph_executor.arguments import edge_name, node_name
from services.graph_executor.elements import (
    KEY,
    Change,
    EdgeChange,
    EdgeName,
    EdgeState,
    Ends,
    NodeChange,
    NodeName,
    NodeState,
    Properties,
    edges_revision,
)
from services.graph_executor.policy import Access, GraphPolicy, check_properties
from services.graph_executor.store import KeptChange
from services.graph_executor.views import View
from services.kit.tools.executor import ToolRefused
from services.kit.tools.names import (
    ADD_EDGE,
    ADD_NODE,
    DELETE_EDGE,
    DELETE_NODE,
    UPDATE_PROPS,
)


@dataclass(frozen=True)
class Planned:
    """What a call would do: the change, a word for it, a sentence for the model, and more for machines.

    `base` is arguments that keep the call to what was read for it: where that has changed, it is refused.
    """

    change: Change
    result: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)


class Planner:
    """Plans the changes of one caller's calls."""

    def __init__(self, policy: GraphPolicy, access: Access, view: View) -> None:
        self._policy = policy
        self._access = access
        self._view = view

    @property
    def plans(self) -> Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Planned]]]:
        """What plans a call of each tool, by its name."""
        return {
            ADD_NODE: self.add_node,
            ADD_EDGE: self.add_edge,
            UPDATE_PROPS: self.update_props,
            DELETE_NODE: self.delete_node,
            DELETE_EDGE: self.delete_edge,
        }

    async def add_node(self, arguments: Mapping[str, Any]) -> Planned:
        """Plans a node, unless it is there already: then it stays as it is. Raises ToolRefused."""
        name, given = node_name(arguments), arguments.get("properties", {})
        found = await self._node(name)
        rule = self._policy.labels[name.label]
        if found is not None:
            self._check(check_properties(rule.properties, given, name.label))
            return Planned(Change(), "matched", f"The node {name} is there already.", _matched(found, given))
        missing = [f"{name.label} needs the property {each!r}" for each in rule.required if each not in given]
        self._check([*missing, *check_properties(rule.properties, given, name.label)])
        state = NodeState((name.label,), {KEY: name.key, **given})
        change = Change(nodes=(NodeChange(name, None, state),))
        return Planned(change, "created", f"Created the node {name}.", {"revision": state.revision})

    async def add_edge(self, arguments: Mapping[str, Any]) -> Planned:
        """Plans an edge, unless it is there already: then it stays as it is. Raises ToolRefused."""
        name, given = edge_name(arguments), arguments.get("properties", {})
        self._check_edge(name)
        self._check(check_properties(self._policy.edges[name.type].properties, given, name.type))
        for end in (name.start, name.end):
            if await self._node(end) is None:
                raise ToolRefused("node_not_found", f"There is no node {end}; add it first.")
        found = await self._view.edge(name)
        if found is not None:
            return Planned(Change(), "matched", f"The edge {name} is there already.", _matched(found, given))
        state = EdgeState(dict(given))
        change = Change(edges=(EdgeChange(name, None, state),))
        return Planned(change, "created", f"Created the edge {name}.", {"revision": state.revision})

    async def update_props(self, arguments: Mapping[str, Any]) -> Planned:
        """Plans other properties for a node or an edge. Raises ToolRefused."""
        if "edge" in arguments:
            return await self._update_edge(edge_name(arguments["edge"]), arguments)
        name = node_name(arguments)
        before = _there(await self._node(name), f"node {name}", "node_not_found")
        _check_base(before, arguments, f"node {name}")
        rule = self._policy.labels[name.label]
        properties = self._updated(rule.properties, before.properties, arguments, name.label, rule.required)
        after = NodeState(before.labels, properties)
        change = Change(nodes=(NodeChange(name, before, after),) if after.revision != before.revision else ())
        return _updated(change, f"node {name}", before, after)

    async def _update_edge(self, name: EdgeName, arguments: Mapping[str, Any]) -> Planned:
        before = await self._edge(name)
        _check_base(before, arguments, f"edge {name}")
        rules = self._policy.edges[name.type].properties
        after = EdgeState(self._updated(rules, before.properties, arguments, name.type, ()), before.ends)
        change = Change(edges=(EdgeChange(name, before, after),) if after.revision != before.revision else ())
        return _updated(change, f"edge {name}", before, after)

    async def delete_node(self, arguments: Mapping[str, Any]) -> Planned:
        """Plans the end of a node, and of its edges if that was asked for. Raises ToolRefused."""
        name = node_name(arguments)
        before = _there(await self._node(name), f"node {name}", "node_not_found")
        _check_base(before, arguments, f"node {name}")
        edges = await self._view.edges_of(name)
        _check_base_edges(edges, arguments, f"node {name}")
        if edges and not arguments.get("with_edges", False):
            raise ToolRefused(
                "node_has_edges", f"The node {name} has {len(edges)} edges; delete them first, or say with_edges."
            )
        for edge, state in edges.items():
            self._check_ends(edge, await self._ends(edge, state))
        # In one order, whichever the database finds them in: a preview names the same change as the call.
        ended = tuple(EdgeChange(edge, edges[edge], None) for edge in sorted(edges))
        change = Change((NodeChange(name, before, None),), ended)
        also = f" and its {len(edges)} edges" if edges else ""
        base = {"base_revision": before.revision, "base_edges": edges_revision(edges)}
        return Planned(change, "deleted", f"Deleted the node {name}{also}.", base=base)

    async def delete_edge(self, arguments: Mapping[str, Any]) -> Planned:
        """Plans the end of an edge. Raises ToolRefused."""
        name = edge_name(arguments)
        before = await self._edge(name)
        _check_base(before, arguments, f"edge {name}")
        change = Change(edges=(EdgeChange(name, before, None),))
        return Planned(change, "deleted", f"Deleted the edge {name}.", base={"base_revision": before.revision})

    async def undo(self, kept: KeptChange) -> Planned:
        """Plans what takes a change back. Raises ToolRefused, with all that stands in the way."""
        change = kept.change
        held = {each.name: state.labels for each in change.nodes for state in (each.before, each.after) if state}
        for each in change.nodes:
            self._check_writable(each.name, held.get(each.name, ()))
        for name in (each.name for each in change.edges):
            start, end = await self._ends(name)
            self._check_ends(name, (start.union(held.get(name.start, ())), end.union(held.get(name.end, ()))))
        if kept.undone:
            return Planned(Change(), "unchanged", "It had been taken back already.")
        if obstacles := [obstacle async for obstacle in self._obstacles(change)]:
            raise ToolRefused("changed_since", "It can't be undone: " + "; ".join(obstacles))
        text = "Undone." if change else "There was nothing to undo."
        return Planned(change.inverse(), "undone" if change else "unchanged", text)

    async def _obstacles(self, change: Change) -> Any:
        for each in change.nodes:
            if _differs(await self._view.node(each.name), each.after):
                yield f"the node {each.name} is not as it was left"
            elif each.after and not each.before:
                known = {edge.name for edge in change.edges}
                found = await self._view.edges_of(each.name)
                if more := {edge: found[edge] for edge in sorted(set(found) - known)}:
                    yield f"the node {each.name} has edges since: {await self._told(more)}"
        for edge in change.edges:
            if _differs(await self._view.edge(edge.name), edge.after):
                yield f"the edge {edge.name} is not as it was left"
            elif edge.before and not edge.after:
                restored = {each.name for each in change.nodes if each.before}
                for end in sorted({edge.name.start, edge.name.end} - restored):
                    if await self._view.node(end) is None:
                        yield f"the node {end} is gone"

    async def _told(self, edges: Mapping[EdgeName, EdgeState]) -> str:
        """Names a few edges; those that end at a node the caller may not read are only counted."""
        ends = {edge: await self._ends(edge, state) for edge, state in edges.items()}
        shown = [edge for edge, (start, end) in ends.items() if self._access.reads(start | end)]
        hidden = len(edges) - len(shown)
        return ", ".join([*map(str, shown[:5]), *[f"{hidden} that the caller may not read"] * bool(hidden)])

    def _updated(
        self, rules: Any, before: Properties, arguments: Mapping[str, Any], what: str, required: Iterable[str]
    ) -> dict[str, Any]:
        given, removed = arguments.get("properties", {}), arguments.get("remove", [])
        lost = [f"{what} needs the property {each!r}" for each in removed if each in required]
        lost += [f"{each!r} is both set and removed" for each in removed if each in given]
        lost += [f"the key of a {what} stays" for each in removed if each == KEY]
        self._check([*lost, *check_properties(rules, given, what)])
        return {name: value for name, value in {**before, **given}.items() if name not in removed}

    async def _node(self, name: NodeName) -> NodeState | None:
        """Returns a node that the caller may write, if it is there."""
        self._check_writable(name)
        found = await self._view.node(name)
        self._check_writable(name, found.labels if found else ())
        return found

    async def _edge(self, name: EdgeName) -> EdgeState:
        """Returns an edge between nodes that the caller may write."""
        self._check_edge(name)
        found: EdgeState = _there(await self._view.edge(name), f"edge {name}", "edge_not_found")
        self._check_ends(name, await self._ends(name, found))
        return found

    async def _ends(self, name: EdgeName, state: EdgeState | None = None) -> Ends:
        """Returns all labels of an edge's nodes: as they were read with it, or else as they are."""
        if state is not None and state.ends is not None:
            return state.ends
        start, end = [await self._view.node(each) for each in (name.start, name.end)]
        return (
            frozenset(start.labels if start else ()) | {name.start.label},
            frozenset(end.labels if end else ()) | {name.end.label},
        )

    def _check_writable(self, name: NodeName, labels: Iterable[str] = ()) -> None:
        if name.label not in self._access.writable:
            raise ToolRefused("label_refused", f"The caller may not write nodes of the label {name.label}.")
        if not self._access.writes(labels):
            raise ToolRefused(
                "label_refused", f"The node {name} has another label too, which the caller may not write."
            )

    def _check_edge(self, name: EdgeName) -> None:
        self._check_ends(name, (frozenset({name.start.label}), frozenset({name.end.label})))

    def _check_ends(self, name: EdgeName, ends: Ends) -> None:
        for end, labels in zip((name.start, name.end), ends, strict=True):
            self._check_writable(end, labels)
        rule = self._policy.edges[name.type]
        if ends[0].isdisjoint(rule.start) or ends[1].isdisjoint(rule.end):
            leads = f"from {' or '.join(rule.start)} to {' or '.join(rule.end)}"
            raise ToolRefused("edge_refused", f"An edge {name.type} leads {leads}.")

    @staticmethod
    def _check(problems: Iterable[str]) -> None:
        if found := list(problems):
            raise ToolRefused("invalid_properties", "; ".join(found[:5]))


def _matched(state: NodeState | EdgeState, given: Mapping[str, Any]) -> dict[str, Any]:
    differs = sorted(name for name, value in given.items() if state.properties.get(name) != value)
    return {"revision": state.revision, "properties": dict(state.properties), "differs": differs}


def _updated(change: Change, what: str, before: NodeState | EdgeState, after: NodeState | EdgeState) -> Planned:
    data, base = {"revision": after.revision}, {"base_revision": before.revision}
    if not change:
        return Planned(change, "unchanged", f"The {what} holds that already.", data)
    return Planned(change, "updated", f"Updated the {what}.", data, base)


def _there(state: Any, what: str, reason: str) -> Any:
    if state is None:
        raise ToolRefused(reason, f"There is no {what}.")
    return state


def _check_base(state: NodeState | EdgeState, arguments: Mapping[str, Any], what: str) -> None:
    if arguments.get("base_revision", state.revision) != state.revision:
        raise ToolRefused("revision_moved", f"The {what} has changed since it was read.")


def _check_base_edges(edges: Mapping[EdgeName, EdgeState], arguments: Mapping[str, Any], what: str) -> None:
    if "base_edges" in arguments and arguments["base_edges"] != edges_revision(edges):
        raise ToolRefused("revision_moved", f"The edges of the {what} have changed since; it has {len(edges)} now.")


def _differs(found: NodeState | EdgeState | None, left: NodeState | EdgeState | None) -> bool:
    return (found and found.revision) != (left and left.revision)
