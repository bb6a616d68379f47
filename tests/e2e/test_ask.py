"""What `helm test` runs, against a platform: an answer, a token that nobody knows, a gateway that is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fixtures.forked import program
from tests.fixtures.stack import Platform


async def asked(target: str, token: Path, *more: str) -> tuple[int | None, str]:
    """Exit status and output of the program."""
    question = ["--question", "How many devices do I have?"]
    process = await asyncio.create_subprocess_exec(
        *program("services.gateway.ask"), "--target", target, "--token-file", str(token), *question, *more,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_a_question_is_asked_as_helm_test_does(asking: Platform, tmp_path: Path) -> None:
    token = tmp_path / "token"
    target = f"ipv4:{asking.stack.gateway_address}"
    token.write_text(asking.stack.token("27") + "\n")
    status, output = await asked(target, token)
    assert (status, "answered: " in output) == (0, True), output
    token.write_text("nobody")
    status, output = await asked(target, token)
    assert (status, "UNAUTHENTICATED" in output) == (1, True), output
