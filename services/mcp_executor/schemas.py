"""Results held against the JSON Schemas of their tools, by a process that ends where one takes too much."""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import time
from collections.abc import Mapping
from typing import Any, Final

import anyio
import anyio.to_process
from anyio import BrokenWorkerProcess
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from referencing import Registry

from services.kit.wire.tasks import detached

# What one result may take; one of 3 MB takes 1.5 s.
MOST_CPU_S: Final = 5
MOST_BYTES: Final = 128 * 1024**2
# Processes, also idle ones, so that they fit beside the executor in its pod however many servers there are.
MOST_AT_ONCE: Final = 2
# Of each end of what is said, which repeats the value.
_LONGEST_WORDS: Final = 200
TOO_MUCH: Final = "whether it is takes too much to tell"


class ResultChecks:
    """Checks of all servers' results, a few at once."""

    def __init__(self, *, most_cpu_s: int = MOST_CPU_S) -> None:
        self._most_cpu_s = most_cpu_s
        self._few = anyio.CapacityLimiter(MOST_AT_ONCE)

    async def problem_of(self, value: Any, schema: Mapping[str, Any]) -> str:
        """Returns why a value is not what a schema says; empty where it is. The process ends with whoever waits."""
        try:
            given = json.dumps([value, schema]), self._most_cpu_s
            # Whoever waits ends a process that holds their value, and not one that begins: the next finds it ready.
            await asyncio.shield(detached(anyio.to_process.run_sync(_begun, limiter=self._few)))
            return await anyio.to_process.run_sync(_problem_of, *given, cancellable=True, limiter=self._few)
        except (BrokenWorkerProcess, MemoryError, RecursionError):
            return TOO_MUCH


def _begun() -> None:
    """Is done once a process is there."""


def _problem_of(given: str, most_cpu_s: int) -> str:
    unbounded = resource.getrlimit(resource.RLIMIT_DATA)
    # The processor's time, of which others on the machine take nothing; beyond it the process ends.
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: MOST_BYTES,
        resource.RLIMIT_CPU: math.ceil(time.process_time()) + most_cpu_s,
    }
    for kind, most in bounds.items():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    try:
        value, schema = json.loads(given)
        # Of the draft that it names; nothing that it refers to is fetched.
        draft = validator_for(schema, default=Draft202012Validator)
        wrong = best_match(draft(schema, registry=Registry()).iter_errors(value))
    except (MemoryError, SystemError):  # the second, too, where memory is at its end; so is the process
        os._exit(1)
    except RecursionError:
        return TOO_MUCH
    except Exception as error:  # noqa: BLE001 - whatever a schema that can't be read comes to
        return f"its schema can't be used: {_short(str(error))}"
    finally:
        # What is asked next is to be read whole: the rest of it would be taken for the one after it.
        resource.setrlimit(resource.RLIMIT_DATA, unbounded)
    if wrong is None:
        return ""
    where = _short(".".join(map(str, wrong.absolute_path)))
    return f"{where + ': ' if where else ''}{_short(wrong.message)}"


def _short(text: str) -> str:
    return text if len(text) <= 2 * _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]} … {text[-_LONGEST_WORDS:]}"
