"""A runtime with limits that are wrong does not start, and says all that is wrong at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fixtures.forked import program

REQUIRED = {
    "SIGNALBOX_DATABASE_DSN": "postgresql://nobody@127.0.0.1:1/none",
    "SIGNALBOX_GUARD_TARGET": "ipv4:127.0.0.1:1",
    "SIGNALBOX_SQL_EXECUTOR_TARGET": "ipv4:127.0.0.1:1",
    "SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE": "/none",
    "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": "/none",
    "SIGNALBOX_MODEL_BASE_URL": "http://127.0.0.1:1",
    "SIGNALBOX_AGENT_MODEL": "agent",
    "SIGNALBOX_FORMAT_MODEL": "format",
}
FILE = "data_chat: {max_iterations: 0, top_k: many}\nweather: {}\n"


async def started(env: dict[str, str]) -> tuple[int | None, list[str]]:
    """How a runtime's start ended, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *program("services.runtime"), env={**REQUIRED, **env}, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, said.decode().splitlines()


@pytest.mark.parametrize(
    ("env", "begins"),
    [
        (
            {
                "SIGNALBOX_POLICY_FILE": "policies.yaml",
                "SIGNALBOX_MODELS": '{"thinker": "large"}',
                # A built-in agent has no store.
                "SIGNALBOX_STORES": '{"default": {}, "data_chat": {"scope": "agent"}}',
            },
            [
                "SIGNALBOX_MODELS [thinker]: no agent has such a role",
                "SIGNALBOX_STORES [data_chat]: no graph that is loaded here is called so; there are default",
                "policies.yaml: data_chat.max_iterations is 0: input should be greater",
                "policies.yaml: data_chat.top_k is 'many': input should be a valid integer",
                "policies.yaml: weather: there is no such agent",
            ],
        ),
        ({"SIGNALBOX_POLICY_FILE": "none.yaml"}, ["SIGNALBOX_POLICY_FILE: none.yaml can't be read"]),
        (
            {"SIGNALBOX_POLICY_FILE": "policies.yaml", "SIGNALBOX_POLICIES": '{"data_chat": {"top_k": 3}}'},
            ["SIGNALBOX_POLICY_FILE and SIGNALBOX_POLICIES are both set"],
        ),
    ],
    ids=["wrong", "missing", "both"],
)
async def test_it_says_what_is_wrong(env: dict[str, str], begins: list[str], tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(FILE)
    file = tmp_path / env["SIGNALBOX_POLICY_FILE"]
    status, said = await started({**env, "SIGNALBOX_POLICY_FILE": str(file)})
    problems = [line.replace(f"{tmp_path}/", "") for line in said if "SIGNALBOX" in line or "policies.yaml" in line]
    assert status == 2
    assert len(problems) == len(begins)
    for problem, words in zip(problems, begins, strict=True):
        assert problem.startswith(words)


async def test_a_folder_of_prompts_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "graph_editor.plan.txt").write_text("Plan {goal}.")
    (tmp_path / "guard.goal.txt").write_text("")  # the guard's to say
    bad = {"SIGNALBOX_PROMPTS_DIR": str(tmp_path)}
    code, said = await started(bad)
    assert code == 2
    assert said == [
        "SIGNALBOX_PROMPTS_DIR: graph_editor.plan.txt: holds {goal}: nothing is filled in, what a prompt is told "
        "stands below it",
        "SIGNALBOX_PROMPTS_DIR: graph_editor.plan.txt: does not name submit_plan, goal_reached, by which the answer is "
        "read",
    ]
    (tmp_path / "graph_editor.plan.txt").unlink()
    (tmp_path / "sast_investigation.xss.yaml").write_text("name: xss\n")
    code, [told] = await started(bad)
    assert code == 2
    assert told.startswith("SIGNALBOX_PROMPTS_DIR: sast_investigation.xss.yaml: title: ")
