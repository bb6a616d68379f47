"""What words mean in one world: its tables, its columns, its measurements. The world brings it as a file.

What a prompt holds (tables, columns, notes, examples) is read from the prompt; this is only what a language model would
know by itself, such as that a vessel is a ship and that what is hotter has a higher temperature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class IncidentVocabulary(BaseModel):
    """Names of columns, metrics and settings that tell of the state of services; empty where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depends: str = Field("", description="Type of edges from a service to what it depends on.")
    measurements: str = Field("", description="Table of what was measured.")
    measured_at: str = Field("", description="Column of when.")
    deployments: str = Field("", description="Table of what was deployed.")
    deployed_at: str = Field("", description="Column of when.")
    service: str = Field("", description="Column of a service's name, in measurements and deployments.")
    metric: str = Field("", description="Column of what was measured.")
    value: str = Field("", description="Column of how much it was.")
    version: str = Field("", description="Column of what was deployed.")
    summary: str = Field("", description="Column of what that changed.")
    symptoms: tuple[str, ...] = Field((), description="Metrics that callers suffer from, the first first.")
    refused: str = Field("", description="Metric that counts refused sign-ins.")
    disk: str = Field("", description="Metric of the disk that is used, in percent.")
    connections: str = Field("", description="Metric of the database connections in use.")
    pool: str = Field("", description="Setting that bounds them.")


class GraphLabel(BaseModel):
    """What is known of the nodes of a label."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: str = Field("(?!)", description="Pattern of keys that are these nodes', without the label being said.")
    title: str = Field("", description="Property that is meant by what a node is called.")


_STATES: Mapping[str, tuple[str, ...]] = {
    "open": ("reopen",), "closed": ("close",), "resolved": ("resolve",), "done": (), "in progress": (), "new": (),
    "blocked": (), "cancelled": (),
}  # fmt: skip


class Vocabulary(BaseModel):
    """The words of one world; without a file, the words of every world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    rows: Mapping[str, str] = Field(
        {}, description="What one row of a table is called, the finest first; else the last word of the table's name."
    )
    keys: Mapping[str, str] = Field({}, description="Column of a table that tells its rows apart; else `<row>_id`.")
    titles: Mapping[str, str] = Field({}, description="Column that says what a row of a table is called; else `name`.")
    references: Mapping[str, str] = Field(
        {},
        description="`table.column` by the `table.column` that refers to it; else columns of one name ending in `_id`.",
    )
    values: Mapping[str, tuple[str, ...]] = Field({}, description="Values that a `table.column` may have.")
    history: frozenset[str] = Field(frozenset(), description="Tables that hold the past, not the present.")
    guarded: frozenset[str] = Field(frozenset(), description="What nobody may ask to have deleted or altered.")
    labels: Mapping[str, GraphLabel] = Field({}, description="What the nodes of the graph are called.")
    edges: Mapping[str, tuple[str, str]] = Field(
        {}, description="Types of its edges, such as REPORTS, which people use as verbs; the labels at their ends."
    )
    states: Mapping[str, tuple[str, ...]] = Field(
        _STATES, description="Values of a node's status, and other words for them."
    )
    glosses: Mapping[str, str] = Field({}, description="Words and phrases of other languages, in English.")
    synonyms: Mapping[str, tuple[str, ...]] = Field({}, description="Other words, and phrases, by what they mean.")
    units: Mapping[str, str] = Field({}, description="What is meant by a unit.")
    neutral: frozenset[str] = Field(frozenset(), description="Words that ask for nothing more.")
    incidents: IncidentVocabulary = IncidentVocabulary()

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What each single word means."""
        return {word: meaning for word, meaning in self._spelt if " " not in word}

    @cached_property
    def phrases(self) -> dict[str, str]:
        """What several words mean together."""
        return {phrase: meaning for phrase, meaning in self._spelt if " " in phrase}

    @cached_property
    def states_by_word(self) -> dict[str, str]:
        """The states by the words for them, the longest first."""
        words = [(word, state) for state, others in self.states.items() for word in (state, *others)]
        return dict(sorted(words, key=lambda each: -len(each[0])))

    def title_of(self, label: str) -> str:
        """The property that is meant by what a node is called; empty where nobody says."""
        return self.labels.get(label.lower(), GraphLabel()).title

    def label_of_key(self, key: str) -> str:
        """The label whose keys look like this one; empty for none."""
        return next((label for label, known in self.labels.items() if re.fullmatch(known.keys, key)), "")

    def in_english(self, text: str) -> str:
        """Returns a text with what is known of other languages put in English, word for word; quoted text stays."""
        if not self.glosses:
            return text
        parts = re.split(r"(\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w))", text)
        parts[::2] = [self._gloss.sub(lambda found: self.glosses[found[0].lower()], part) for part in parts[::2]]
        return "".join(parts)

    @cached_property
    def _gloss(self) -> re.Pattern[str]:
        words = sorted(map(re.escape, self.glosses), key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)

    @property
    def _spelt(self) -> list[tuple[str, str]]:
        return [(word, meaning) for meaning, words in self.synonyms.items() for word in words]
