"""Settings of the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic_settings import NoDecode

from services.kit.identity.claims import LONGEST_NAME, MOST_PASSED_CLAIMS
from services.kit.settings import OptionalFile, ServiceSettings

ClaimName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]


def _split(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class GatewaySettings(ServiceSettings):
    """What the gateway is told; see the README for how the quotas and the recovery of streams work."""

    runtime_target: str = Field(min_length=1, description="gRPC target of the runtime, dns:///host:port or ipv4:….")
    batches_target: str = Field(
        "", description="gRPC target of the service for batches; empty: BatchService is UNIMPLEMENTED here."
    )
    caller_token_private_key_file: Path = Field(
        description="PEM file of the Ed25519 key that signs the gateway's word to the runtime about who calls."
    )
    caller_token_ttl_s: int = Field(60, ge=5, le=600, description="Seconds that this word is valid.")
    jwks_url: str = Field("", pattern="^(https?://.+)?$", description="URL of the issuer's JWKS; or set jwks_file.")
    jwks_file: OptionalFile = Field(None, description="File with the issuer's JWKS; or set jwks_url.")
    jwt_issuer: str = Field(min_length=1, description="Issuer (iss) that callers' tokens must name.")
    jwt_audience: str = Field(min_length=1, description="Audience (aud) that callers' tokens must name.")
    jwt_roles_claim: str = Field(
        "roles",
        min_length=1,
        description="Claim of callers' tokens that holds roles: a list, or words in one text such as scope. Dots lead "
        "into a claim, as in realm_access.roles. A token without it has no roles.",
    )
    jwt_longest_life_s: int = Field(
        86_400,
        ge=60,
        le=31_536_000,
        description="Seconds for which a caller's token may still be good.",
    )
    jwt_passed_claims: Annotated[tuple[ClaimName, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=MOST_PASSED_CLAIMS,
        description="Claims of callers' tokens, separated by commas, that executors are told of, such as one that "
        "names the caller's graph. A token in which one of them is not a name of up to 128 characters is refused.",
    )
    adopt_traceparent: bool = Field(
        False,
        description="Whether a call joins the trace that its caller's traceparent names, for callers that may say "
        "what is recorded. If not, it begins a trace of its own, linked to the caller's.",
    )
    quota_requests_per_minute: int = Field(
        3000, ge=1, le=1_000_000, description="Calls a minute that one caller may make on this replica, on average."
    )
    quota_burst: int = Field(300, ge=1, le=1_000_000, description="Calls that one caller may make at once.")
    quota_concurrent_streams: int = Field(
        100, ge=1, le=100_000, description="Streams that one caller may hold open on this replica."
    )
    redaction_file: OptionalFile = Field(
        None,
        description="File (YAML) of rules for what is masked in whatever callers are told (docs/operations.md); "
        "checked when the service starts. Unset: nothing.",
    )
    recovery_s: float = Field(
        60, gt=0, le=3600, description="Seconds without progress after which an interrupted stream ends."
    )

    tls_require_client_cert: bool = Field(
        False, description="Whether callers must show a certificate besides their token; used with TLS only."
    )

    @model_validator(mode="after")
    def _one_source_of_keys(self) -> Self:
        if bool(self.jwks_url) == bool(self.jwks_file):
            raise ValueError("set either SIGNALBOX_JWKS_URL or SIGNALBOX_JWKS_FILE, and not both")
        return self
