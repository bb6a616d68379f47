"""What holds of every run of a graph, whatever models, tools and callers say: shown by going through its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.model import Model, Position, Step
from services.runtime.routing.table import END
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
    proof.positions = len(present.steps)
    if cycle := present.cycle():
        proof.problems.append(f"{graph.name}: nothing bounds this cycle:\n{_in_words(cycle)}")
    else:
        nodes = {node.name: node for node in graph.nodes}
        proof.steps = present.most(lambda _: 1)
        proof.model_calls = present.most(lambda node: nodes[node].cost.model_calls)
        # A first visit is one of each node that runs come to: too many only where no run comes to all of them.
        first = sum(nodes[name].cost.first_tool_calls for name in {position[0] for position in present.steps})
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
    reached = {step.move.node for steps in free.steps.values() for step in steps}
    unreached = [node.name for node in proof.graph.nodes if node.name not in reached]
    proof.problems += [f"{proof.graph.name}: no run comes to the node {name!r}" for name in unreached]


class _Exploration:
    """Every position of a model, the steps from each, and one way to each."""

    def __init__(self, model: Model) -> None:
        self.steps: dict[Position, list[Step]] = {}
        self.fired: dict[RuleName, tuple[Position, Step]] = {}
        self._ended_first: list[Position] = []
        self._came_from: dict[Position, tuple[Position, Step]] = {}
        self._beginnings = model.beginnings()
        found = list(self._beginnings)
        # Breadth first: the walk to a position is a shortest one.
        for position in found:
            if position in self.steps:
                continue
            if len(self.steps) >= MOST_POSITIONS:
                told = (
                    f"more than {MOST_POSITIONS:,} positions to look at: nothing is shown under limits as high as these"
                )
                raise NotAModel(f"{model.graph.name}: {told}")
            self.steps[position] = list(model.steps(position, distinct=True))
            for step in self.steps[position]:
                if step.move.rule:
                    self.fired.setdefault((step.move.router, step.move.rule), (position, step))
                if step.after is not None and step.after not in self._came_from:
                    self._came_from[step.after] = (position, step)
                    found.append(step.after)

    def walk_to(self, end: tuple[Position, Step]) -> list[Step]:
        """Returns the steps from a beginning to one, and that one."""
        position, last = end
        walk = [last]
        while position not in self._beginnings:
            position, step = self._came_from[position]
            walk.append(step)
        return walk[::-1]

    def cycle(self) -> list[Step]:
        """Returns a walk that comes back to where it has been, or nothing: then every run ends."""
        again = self._comes_again()
        if again is None:
            return []
        # A shortest way there, and a shortest one round.
        before = self.walk_to(self._came_from[again]) if again in self._came_from else []
        came_from: dict[Position, tuple[Position, Step]] = {}
        found = [again]
        for position in found:
            for step in self.steps[position]:
                if step.after is not None and step.after not in came_from:
                    came_from[step.after] = (position, step)
                    found.append(step.after)
        round_trip, position = list[Step](), again
        while not round_trip or position != again:
            position, step = came_from[position]
            round_trip.append(step)
        return [*before, *round_trip[::-1]]

    def _comes_again(self) -> Position | None:
        """Returns a position that can come before itself."""
        left = {each: sum(step.after is not None for step in steps) for each, steps in self.steps.items()}
        leads_to: dict[Position, list[Position]] = {}
        for each, steps in self.steps.items():
            for step in steps:
                if step.after is not None:
                    leads_to.setdefault(step.after, []).append(each)
        # From the ends backwards: what is left over never ends.
        self._ended_first = [each for each, count in left.items() if not count]
        for each in self._ended_first:
            for earlier in leads_to.get(each, ()):
                left[earlier] -= 1
                if not left[earlier]:
                    self._ended_first.append(earlier)
        position: Position | None = next((each for each, count in left.items() if count), None)
        seen: set[Position] = set()
        while position is not None and position not in seen:
            seen.add(position)
            ways = (step.after for step in self.steps[position])
            position = next(after for after in ways if after is not None and left[after])
        return position

    def most(self, cost_of: Callable[[str], int | None]) -> Bound:
        """Returns the most that a run can cost, by what a visit to a node does; only where `cycle` has found none."""
        most: dict[Position | None, tuple[int, int]] = {None: (0, 0)}
        for position in self._ended_first:
            behind = max([most[step.after] for step in self.steps[position]], default=(0, 0))
            most[position] = _plus(cost_of(position[0]), behind)
        open_visits, count = max((most[beginning] for beginning in self._beginnings), default=(0, 0))
        return Bound(count, open_visits)


def _plus(cost: int | None, after: tuple[int, int]) -> tuple[int, int]:
    """Adds a visit's cost to (visits without a bound, what is bounded)."""
    open_visits, count = after
    return (open_visits + 1, count) if cost is None else (open_visits, count + cost)


def _in_words(walk: list[Step]) -> str:
    """Returns a walk line by line, with what each router knew."""
    lines = []
    for number, move in enumerate((step.move for step in walk), start=1):
        to = "the end" if move.destination == END else move.destination
        known = ", ".join(f"{name} = {as_read(value)}" for name, value in move.facts.items())
        way = f"{move.router}: {move.rule} → {to}" if move.rule else f"→ {to}"
        lines.append(f"  {number}. {move.node} ({move.outcome}) {way}  [{known}]")
    return "\n".join(lines)
