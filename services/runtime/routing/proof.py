"""What holds of every run of a graph, whatever models, tools and callers say: shown by going through its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from signalbox_routing.table import END

from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.model import Model, Move
from services.runtime.routing.variables import NotAModel, as_read

RuleName = tuple[str, str]
# So many take some 10 s and 0.5 GB; beyond them a graph's limits are too high for anything to be shown of it.
MOST_POSITIONS = 200_000


@dataclass(frozen=True)
class Bound:
    """The most of something in one run: a number, and visits to nodes that each take as many as a model asks for."""

    count: int
    open_visits: int = 0

    def of(self, things: str) -> str:
        """`15 tool calls`; or `3 tool calls, and 2 times as many as a model asks for at once`."""
        more = f", and {self.open_visits} times as many as a model asks for at once" if self.open_visits else ""
        return f"{self.count} {things}{more}"


@dataclass
class Proof:
    """What was shown of a graph; `problems` is empty where all of it holds.

    `unused` are the rules that no run comes to under the present limits, though it would under others.
    """

    graph: AgentGraph
    positions: int = 0
    steps: Bound = field(default_factory=lambda: Bound(0))
    model_calls: Bound = field(default_factory=lambda: Bound(0))
    tool_calls: Bound = field(default_factory=lambda: Bound(0))
    unused: list[RuleName] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def costs(self) -> list[str]:
        """What one run takes at most."""
        return [self.steps.of("nodes"), self.model_calls.of("model calls"), self.tool_calls.of("tool calls")]


def prove(graph: AgentGraph) -> Proof:
    """Shows that a graph's runs end, and which of its rules they come to."""
    proof = Proof(graph)
    try:
        present, free = _Exploration(Model(graph)), _Exploration(Model(graph, any_limits=True))
    except NotAModel as error:
        proof.problems.append(str(error))
        return proof
    proof.positions = len(present.positions)
    if cycle := present.cycle():
        proof.problems.append(f"{graph.name}: nothing bounds this cycle:\n{_in_words(cycle)}")
    else:
        nodes = {node.name: node for node in graph.nodes}
        proof.steps = present.most(lambda _: 1)
        proof.model_calls = present.most(lambda node: nodes[node].cost.model_calls)
        # A first visit is one of each node that runs come to: too many only where no run comes to all of them.
        first = sum(nodes[name].cost.first_tool_calls for name in {position[0] for position in present.positions})
        tool_calls = present.most(lambda node: nodes[node].cost.tool_calls)
        proof.tool_calls = replace(tool_calls, count=tool_calls.count + first)
        if proof.steps.count > graph.max_steps:
            told = f"a run can take {proof.steps.of('steps')}, and is cut off at {graph.max_steps}"
            proof.problems.append(f"{graph.name}: {told}")
    _judge_rules(proof, present, free)
    return proof


def _judge_rules(proof: Proof, present: _Exploration, free: _Exploration) -> None:
    for router in proof.graph.routers:
        for rule in router.rules:
            name = (router.name, rule.name)
            walk = free.fired.get(name)
            if walk is None and not rule.unreachable_because:
                why = "whatever the limits; say why it is there"
                proof.problems.append(f"{router.name}: no run comes to {rule.name!r}, {why}")
            elif walk is not None and rule.unreachable_because:
                told = _in_words(free.walk_to(walk))
                proof.problems.append(f"{router.name}: {rule.name!r} is declared unreachable, and is reached:\n{told}")
            elif walk is not None and name not in present.fired:
                proof.unused.append(name)
    reached = {position[0] for position in free.positions}
    unreached = [node.name for node in proof.graph.nodes if node.name not in reached]
    proof.problems += [f"{proof.graph.name}: no run comes to the node {name!r}" for name in unreached]


class _Exploration:
    """Every position of a model, the moves from each, and one way to each. Positions are known by their number."""

    def __init__(self, model: Model) -> None:
        self.positions = model.beginnings()
        self.fired: dict[RuleName, tuple[int, Move]] = {}
        self._model = model
        # By position: those that a move leads to; the end is none.
        self._behind: list[list[int]] = []
        self._came_from: list[tuple[int, Move] | None] = [None] * len(self.positions)
        self._ended_first: list[int] = []
        numbers = {position: number for number, position in enumerate(self.positions)}
        # Breadth first: the walk to a position is a shortest one.
        for number, position in enumerate(self.positions):
            if number >= MOST_POSITIONS:
                told = (
                    f"more than {MOST_POSITIONS:,} positions to look at: nothing is shown under limits as high as these"
                )
                raise NotAModel(f"{model.graph.name}: {told}")
            behind = list[int]()
            for move, after in model.steps(position, distinct=True):
                if move.rule:
                    self.fired.setdefault((move.router, move.rule), (number, move))
                if after is None:
                    continue
                behind.append(numbers.setdefault(after, len(numbers)))
                if len(numbers) > len(self.positions):
                    self.positions.append(after)
                    self._came_from.append((number, move))
            self._behind.append(behind)

    def walk_to(self, end: tuple[int, Move] | None) -> list[Move]:
        """Returns the moves from a beginning to one, and that one; none to a beginning."""
        walk = list[Move]()
        while end is not None:
            number, move = end
            walk.append(move)
            end = self._came_from[number]
        return walk[::-1]

    def cycle(self) -> list[Move]:
        """Returns a walk that comes back to where it has been, or nothing: then every run ends."""
        again = self._comes_again()
        if again is None:
            return []
        # A shortest way there, and a shortest one round.
        before = self.walk_to(self._came_from[again])
        came_from: dict[int, tuple[int, Move]] = {}
        found = [again]
        for number in found:
            moves = (step.move for step in self._model.steps(self.positions[number], distinct=True) if step.after)
            for move, to in zip(moves, self._behind[number], strict=True):
                if to not in came_from:
                    came_from[to] = (number, move)
                    found.append(to)
        round_trip, number = list[Move](), again
        while not round_trip or number != again:
            number, move = came_from[number]
            round_trip.append(move)
        return [*before, *round_trip[::-1]]

    def _comes_again(self) -> int | None:
        """Returns a position that can come before itself."""
        left = [len(behind) for behind in self._behind]
        leads_to: list[list[int]] = [[] for _ in self._behind]
        for number, behind in enumerate(self._behind):
            for to in behind:
                leads_to[to].append(number)
        # From the ends backwards: what is left over never ends.
        self._ended_first = [number for number, count in enumerate(left) if not count]
        for number in self._ended_first:
            for earlier in leads_to[number]:
                left[earlier] -= 1
                if not left[earlier]:
                    self._ended_first.append(earlier)
        position: int | None = next((number for number, count in enumerate(left) if count), None)
        seen: set[int] = set()
        while position is not None and position not in seen:
            seen.add(position)
            position = next(to for to in self._behind[position] if left[to])
        return position

    def most(self, cost_of: Callable[[str], int | None]) -> Bound:
        """Returns the most that a run can cost, by what a visit to a node does; only where `cycle` has found none."""
        most = [(0, 0)] * len(self.positions)
        for number in self._ended_first:
            behind = max([most[to] for to in self._behind[number]], default=(0, 0))
            most[number] = _plus(cost_of(self.positions[number][0]), behind)
        beginnings = (most[number] for number, came_from in enumerate(self._came_from) if came_from is None)
        open_visits, count = max(beginnings, default=(0, 0))
        return Bound(count, open_visits)


def _plus(cost: int | None, after: tuple[int, int]) -> tuple[int, int]:
    """Adds a visit's cost to (visits without a bound, what is bounded)."""
    open_visits, count = after
    return (open_visits + 1, count) if cost is None else (open_visits, count + cost)


def _in_words(walk: list[Move]) -> str:
    """Returns a walk line by line, with what each router knew."""
    lines = []
    for number, move in enumerate(walk, start=1):
        to = "the end" if move.destination == END else move.destination
        known = ", ".join(f"{name} = {as_read(value)}" for name, value in move.facts.items())
        way = f"{move.router}: {move.rule} → {to}" if move.rule else f"→ {to}"
        lines.append(f"  {number}. {move.node} ({move.outcome}) {way}  [{known}]")
    return "\n".join(lines)
