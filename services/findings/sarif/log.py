"""The parts of a SARIF log that are read; the rest stays as it is in the document.

A part that is of another kind than SARIF 2.1.0 has it counts as not given, and costs nothing but itself. What was left
out so is said in the list that validation is given as its context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

MAX_NOTE_CHARACTERS = 200


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _take_nothing_from_what_is_no_object(cls, value: Any) -> Any:
        return value if isinstance(value, dict | _Part) else {}

    @field_validator("*", mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        try:
            return read(value)
        except ValidationError as error:
            if value is not None and isinstance(info.context, list):
                wrong = f"{to_camel(name)} can't be read: {error.errors(include_url=False)[0]['msg']}"
                info.context.append(wrong[:MAX_NOTE_CHARACTERS])
            return cls.model_fields[name].get_default(call_default_factory=True)


# One of several: what is no text is an empty one, so that the others keep their places.
_OneText = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]


class Message(_Part):
    """Text for a person, in place or by id."""

    text: str = ""
    markdown: str = ""
    id: str = ""
    arguments: tuple[_OneText, ...] = ()


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


class Configuration(_Part):
    """How a rule is set by default."""

    level: str = ""


class Descriptor(_Part):
    """A rule or a taxon."""

    id: str = ""
    guid: str = ""
    name: str = ""
    message_strings: Mapping[str, Message] = Field(default_factory=dict)
    short_description: Message = Message()
    relationships: tuple[Relationship, ...] = ()
    default_configuration: Configuration = Configuration()
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
    """What the analyser found. notes: what of it can't be read."""

    rule_id: str = ""
    rule_index: int = -1
    rule: DescriptorReference = DescriptorReference()
    kind: str = "fail"
    level: str = ""
    baseline_state: str = ""
    message: Message = Message()
    locations: tuple[Location, ...] = ()
    related_locations: tuple[Location, ...] = ()
    code_flows: tuple[CodeFlow, ...] = ()
    taxa: tuple[DescriptorReference, ...] = ()
    fingerprints: Mapping[str, _OneText] = Field(default_factory=dict)
    partial_fingerprints: Mapping[str, _OneText] = Field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    properties: Mapping[str, Any] = Field(default_factory=dict)
    notes: tuple[str, ...] = Field((), exclude=True)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_notes(cls, value: Any, read: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        noted: list[str] = info.context if isinstance(info.context, list) else []
        before = len(noted)
        result = read(value)
        result = result.model_copy(update={"notes": tuple(noted[before:])})
        del noted[before:]
        return result


class Artifact(_Part):
    """A file of the run."""

    location: ArtifactLocation = ArtifactLocation()


class Revision(_Part):
    """What was analysed, by a version control system's name for it."""

    repository_uri: str = ""
    revision_id: str = ""


class Run(_Part):
    """One run of an analyser."""

    tool: Tool = Tool()
    results: tuple[Result, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    taxonomies: tuple[Component, ...] = ()
    thread_flow_locations: tuple[ThreadFlowLocation, ...] = ()
    original_uri_base_ids: Mapping[str, ArtifactLocation] = Field(default_factory=dict)
    version_control_provenance: tuple[Revision, ...] = ()


class Log(_Part):
    """A SARIF log."""

    version: str = ""
    runs: tuple[Run, ...] = ()
