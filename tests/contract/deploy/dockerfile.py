"""The Dockerfile as data."""

from __future__ import annotations

import re

from tests.contract.deploy.helm import ROOT

DOCKERFILE = ROOT / "services" / "Dockerfile"
Instruction = tuple[str, str]


def instructions(text: str = "") -> list[Instruction]:
    """The instructions of the Dockerfile, or of a text, in order: continuation lines joined and comments dropped."""
    lines = [line for line in (text or DOCKERFILE.read_text()).splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, from its FROM on."""
    found: list[list[Instruction]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found
