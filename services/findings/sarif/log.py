"""The parts of a SARIF log that are read; the rest stays as it is in the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Message(_Part):
    """Text for a person, in place or by id."""

    text: str = ""
    markdown: str = ""
    id: str = ""
    arguments: tuple[str, ...] = ()


class ArtifactLocation(_Part):
    """Where a file is: a URI, perhaps relative to a base, or an index into the run's artifacts."""

    uri: str = ""
    uri_base_id: str = ""
    index: int = -1


class Region(_Part):
    """A part of a file."""

    start_line: int = 0
    end_line: int = 0
    start_column: int = 0
    end_column: int = 0
    snippet: Message | None = None


class PhysicalLocation(_Part):
    """A file, or a part of one."""

    artifact_location: ArtifactLocation = ArtifactLocation()
    region: Region = Region()
    context_region: Region = Region()


class Location(_Part):
    """A place, and what is said of it."""

    physical_location: PhysicalLocation | None = None
    message: Message = Message()


class ThreadFlowLocation(_Part):
    """A step of a code flow, in place or by index."""

    location: Location | None = None
    index: int = -1


class ThreadFlow(_Part):
    """Steps in order."""

    locations: tuple[ThreadFlowLocation, ...] = ()


class CodeFlow(_Part):
    """A way through the code, from source to sink."""

    thread_flows: tuple[ThreadFlow, ...] = ()


class ComponentReference(_Part):
    """The driver, an extension or a taxonomy."""

    name: str = ""
    index: int = -1
    guid: str = ""


class DescriptorReference(_Part):
    """A rule or a taxon, by id, index or guid."""

    id: str = ""
    index: int = -1
    guid: str = ""
    tool_component: ComponentReference | None = None


class Relationship(_Part):
    """What a rule has to do with a taxon."""

    target: DescriptorReference = DescriptorReference()


class Descriptor(_Part):
    """A rule or a taxon."""

    id: str = ""
    guid: str = ""
    name: str = ""
    message_strings: Mapping[str, Message] = Field(default_factory=dict)
    short_description: Message = Message()
    relationships: tuple[Relationship, ...] = ()
    properties: Mapping[str, Any] = Field(default_factory=dict)


class Component(_Part):
    """The driver, an extension or a taxonomy."""

    name: str = ""
    guid: str = ""
    rules: tuple[Descriptor, ...] = ()
    taxa: tuple[Descriptor, ...] = ()


class Tool(_Part):
    """The analyser."""

    driver: Component = Component()
    extensions: tuple[Component, ...] = ()


class Suppression(_Part):
    """Why a result is not to be shown."""

    status: str = "accepted"
    properties: Mapping[str, Any] = Field(default_factory=dict)


class Result(_Part):
    """What the analyser found."""

    rule_id: str = ""
    rule_index: int = -1
    rule: DescriptorReference = DescriptorReference()
    kind: str = "fail"
    baseline_state: str = ""
    message: Message = Message()
    locations: tuple[Location, ...] = ()
    related_locations: tuple[Location, ...] = ()
    code_flows: tuple[CodeFlow, ...] = ()
    taxa: tuple[DescriptorReference, ...] = ()
    fingerprints: Mapping[str, str] = Field(default_factory=dict)
    partial_fingerprints: Mapping[str, str] = Field(default_factory=dict)
    suppressions: tuple[Suppression, ...] | None = None
    properties: Mapping[str, Any] = Field(default_factory=dict)


class Artifact(_Part):
    """A file of the run."""

    location: ArtifactLocation = ArtifactLocation()


class Run(_Part):
    """One run of an analyser."""

    tool: Tool = Tool()
    results: tuple[Result, ...] | None = None
    artifacts: tuple[Artifact, ...] = ()
    taxonomies: tuple[Component, ...] = ()
    thread_flow_locations: tuple[ThreadFlowLocation, ...] = ()
    original_uri_base_ids: Mapping[str, ArtifactLocation] = Field(default_factory=dict)


class Log(_Part):
    """A SARIF log."""

    version: str = ""
    runs: tuple[Run, ...] = ()
