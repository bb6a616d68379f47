"""What is asked for in an address, read: fields by name, with what is wrong with each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import outcome_pb2, runs_pb2
from starlette.datastructures import QueryParams

from services.console.errors import BadRequest
from services.kit.outcome import Outcome
from services.kit.text.words import A_MOMENT, parse_moment, parse_state


@dataclass
class Filters:
    """The fields of an address: their texts, and what is wrong with some of them."""

    texts: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, params: QueryParams, names: Iterable[str]) -> Filters:
        """Reads the fields of these names. Another one, or one given twice, is a problem and not left aside."""
        known = list(names)
        filters = cls({name: params.get(name, "").strip() for name in known})
        for name in params:
            if name not in known:
                filters.problems[name] = f"there is no such filter here; there are {', '.join(known)}"
            elif len(params.getlist(name)) > 1:
                filters.problems[name] = "given more than once"
        return filters

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def time(self, name: str) -> Timestamp | None:
        """Returns a time, as this machine's clock shows it; None where there is none, or it can't be read."""
        if not self[name]:
            return None
        try:
            return parse_moment(self[name])
        except ValueError:
            self.problems[name] = f"not a time: give {A_MOMENT}"
            return None

    def state(self, name: str) -> runs_pb2.RunState:
        """Returns a state of runs; unspecified where there is none, or no such."""
        try:
            return parse_state(self[name]) if self[name] else runs_pb2.RUN_STATE_UNSPECIFIED
        except ValueError as error:
            self.problems[name] = str(error)
            return runs_pb2.RUN_STATE_UNSPECIFIED

    def outcome(self, name: str) -> outcome_pb2.Outcome:
        """Returns an outcome of runs; unspecified where there is none, or no such."""
        try:
            return Outcome.parse(self[name]).proto if self[name] else outcome_pb2.OUTCOME_UNSPECIFIED
        except ValueError as error:
            self.problems[name] = str(error)
            return outcome_pb2.OUTCOME_UNSPECIFIED

    def labels(self, name: str) -> Mapping[str, str]:
        """Returns labels of a text such as `team=billing env=prod`; none where it can't be read."""
        labels: dict[str, str] = {}
        for text in self[name].split():
            key, equals, value = text.partition("=")
            if not key or not equals:
                self.problems[name] = f"{text!r} is not a label: write key=value"
                return {}
            if labels.setdefault(key, value) != value:
                self.problems[name] = f"the label {key!r} is given twice"
                return {}
        return labels

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Returns one of some choices; the default where there is none."""
        known = list(choices)
        if self[name] and self[name] not in known:
            self.problems[name] = f"not one of {', '.join(known)}"
        return self[name] if self[name] in known else default

    def refused(self, error: BadRequest, names: Mapping[str, str]) -> None:
        """Notes what the gateway refuses, by its names of the fields; without any, about the whole."""
        for violation in error.violations:
            # Of a map, the field names the key as well.
            name = violation.field.partition("[")[0]
            self.problems[names.get(name, name)] = violation.description
        if not error.violations:
            self.problems[""] = error.message

    def address(self, path: str, **changed: str) -> str:
        """Returns an address with these fields, some of them changed; empty ones are left out."""
        texts = {name: text for name, text in {**self.texts, **changed}.items() if text}
        return f"{path}?{urlencode(texts)}" if texts else path
