"""Filters of `signalbox runs` kept under a name, as they were written: `--since 2h` is two hours before each use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typer.core import TyperCommand

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import fail
from services.cli.output_files import OutputFile
from services.cli.settings import default_config_dir

# Parameters of the command that say which runs; whose word is taken and how many are shown is said each time.
KEPT = ("agent", "state", "outcome", "thread", "since", "until", "caller", "labels", "text")
GIVEN = "signalbox.given_filter"
_NAME = re.compile(r"[\w.-]{1,60}")
Filter = Mapping[str, str | list[str]]
_FILTERS = TypeAdapter(dict[str, Filter], config=ConfigDict(strict=True))


class SavedFilters:
    """The file with them: JSON, by their names."""

    def __init__(self) -> None:
        self.path = default_config_dir() / "filters.json"

    def __getitem__(self, name: str) -> Filter:
        """Returns a filter. Raises CliError where there is no such."""
        known = self._read()
        if name not in known:
            there_are = f"there are {', '.join(sorted(known))}" if known else "keep one with --save NAME"
            raise CliError(f"no filter is called {name!r}", hint=there_are, code=ExitCode.USAGE)
        return known[name]

    def save(self, name: str, given: Filter) -> None:
        """Keeps a filter in the place of any of this name; an empty one removes that. Raises CliError."""
        if not _NAME.fullmatch(name):
            raise CliError(f"{name!r} is no name", hint="take letters, digits, ., _ and -", code=ExitCode.USAGE)
        others = {each: kept for each, kept in self._read().items() if each != name}
        kept = {**others, name: given} if given else others
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CliError(f"{self.path.parent} can't be made: {error}", code=ExitCode.USAGE) from error
        OutputFile(self.path).write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")

    def _read(self) -> dict[str, Filter]:
        try:
            return _FILTERS.validate_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValidationError as error:
            raise self._unreadable("it does not hold filters by their names") from error
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from error

    def _unreadable(self, why: str) -> CliError:
        return CliError(f"{self.path} can't be read: {why}", hint="mend or remove the file", code=ExitCode.USAGE)


class FilteringCommand(TyperCommand):
    """A command whose options begin as a saved filter has them, where `--filter` names one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options; ends the program where there is no such filter."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        try:
            named: Filter = SavedFilters()[given["_filter_name"]] if given.get("_filter_name") else {}
        except CliError as error:
            raise fail(error) from error
        ctx.default_map = dict(named)
        ctx.meta[GIVEN] = {**named, **{name: given[name] for name in KEPT if name in given}}
        return super().parse_args(ctx, args)
