"""docs/adr/README.md, made from the decisions' first lines by `python -m tests.contract.decisions_index`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.deploy.helm import ROOT

FOLDER = ROOT / "docs" / "adr"
INDEX = FOLDER / "README.md"
_HEAD = """# Decisions

What was decided and is hard to turn around: context, decision, consequences, a page each. A decision is not edited; a
later one supersedes it, which its status line says.

Made from the decisions by `python -m tests.contract.decisions_index` (`make docs`); a test fails when it is stale.

| number | decision | status |
|---|---|---|
"""


def decisions() -> list[Path]:
    """Returns the decisions in order."""
    return sorted(FOLDER.glob("[0-9]*.md"))


def status_of(decision: Path) -> str:
    """Returns what a decision says of itself between its title and its context; accepted where that is nothing."""
    _, _, rest = decision.read_text(encoding="utf-8").partition("\n")
    said = " ".join(rest.partition("\n## ")[0].split()).removeprefix("Status: ").removesuffix(".")
    if not said:
        return "accepted"
    if said.startswith(("Superseded", "superseded", "Accepted", "accepted")):
        return said[0].lower() + said[1:]
    return f"accepted; {said[0].lower()}{said[1:]}"


def title_of(decision: Path) -> str:
    """Returns the title of a decision without its number."""
    first, _, _ = decision.read_text(encoding="utf-8").partition("\n")
    return re.sub(r"^# \d+[.:] ", "", first)


def render_index() -> str:
    """Returns the page."""
    rows = (
        f"| {int(decision.name[:4])} | [{title_of(decision)}]({decision.name}) | {status_of(decision)} |\n"
        for decision in decisions()
    )
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    INDEX.write_text(render_index())
