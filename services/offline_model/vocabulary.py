"""What words mean in one world: its tables, its columns, its measurements. The world brings it as a file.

What a prompt holds (tables, columns, notes, examples) is read from the prompt; this is only what a language model would
know by itself, such as that a vessel is a ship and that what is hotter has a higher temperature.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class IncidentVocabulary(BaseModel):
    """Names of columns, metrics and settings that tell of the state of services; empty where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Vocabulary(BaseModel):
    """The words of one world; without a file, the words of every world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    rows: Mapping[str, str] = Field(
        {}, description="What one row of a table is called, the finest first; else the last word of the table's name."
    )
    history: frozenset[str] = Field(frozenset(), description="Tables that hold the past, not the present.")
    guarded: frozenset[str] = Field(frozenset(), description="What nobody may ask to have deleted or altered.")
    labels: frozenset[str] = Field(frozenset(), description="What the nodes of the graph are called.")
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

    @property
    def _spelt(self) -> list[tuple[str, str]]:
        return [(word, meaning) for meaning, words in self.synonyms.items() for word in words]
