"""Inputs of a batch from a file, one a line, checked before anything is sent; what is wrong is told by its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from signalbox.v1 import batches_pb2, runs_pb2

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.input_file import agent_input, graph_input, opened_text
from services.kit.text.exact_json import exact_json
from services.kit.wire.input_schema import agents_known

# More than a batch may have anywhere, and as much as a machine can hold.
MOST_BYTES = 1024 * 1024 * 1024
PROBLEMS_SHOWN = 20


def read_inputs(agent: str, path: Path) -> list[batches_pb2.NewBatchItem]:
    """The items that a file holds, `-` for standard input. Raises CliError that names each line that is wrong."""
    items: list[batches_pb2.NewBatchItem] = []
    problems: list[str] = []
    for number, line in _lines(path):
        try:
            items.append(batches_pb2.NewBatchItem(input=_input(agent, line, f"line {number}")))
        except CliError as error:
            problems.append(error.message)
    if problems:
        more = f"\nand {len(problems) - PROBLEMS_SHOWN} more" if len(problems) > PROBLEMS_SHOWN else ""
        told = "\n".join(problems[:PROBLEMS_SHOWN])
        hint = f"nothing was uploaded; `signalbox run {agent} --schema` says what an input is"
        raise CliError(f"{len(problems)} lines can't be used:\n{told}{more}", hint=hint, code=ExitCode.USAGE)
    if not items:
        raise CliError("there are no inputs", hint="write one a line, in JSON", code=ExitCode.USAGE)
    return items


def _input(agent: str, line: str, place: str) -> runs_pb2.RunInput:
    try:
        document = exact_json(line, unique=True)
    except ValueError as error:
        raise CliError(f"{place} is not JSON: {error}", code=ExitCode.USAGE) from error
    if agent in agents_known():
        return agent_input(agent, document, place)
    if not isinstance(document, dict):
        raise CliError(f"{place} holds no object", code=ExitCode.USAGE)
    return graph_input(agent, document, place)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    read = 0
    try:
        with opened_text(path) as file:
            for number, line in enumerate(file, 1):
                read += len(line)
                if read > MOST_BYTES:
                    raise CliError(
                        f"{path} has more than {MOST_BYTES:,} characters", hint="make two of it", code=ExitCode.USAGE
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        hint = "name a file, or `-` for standard input"
        raise CliError(f"can't read {path}: {error.strerror}", hint=hint, code=ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        wrong = f"{path} is not {error.encoding.upper()}"
        raise CliError(wrong, hint="write the file in UTF-8", code=ExitCode.USAGE) from error
