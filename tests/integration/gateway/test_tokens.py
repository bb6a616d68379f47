"""Who is let in at the gateway: only callers whose token its issuer signed, for this platform, now."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import grpc
import jwt
import pytest
from signalbox.v1 import runs_pb2

from services.kit.errors import error_detail
from services.kit.identity.caller import Caller
from services.kit.identity.keys import EDDSA, generate_keypair
from services.local.keys import KEY_ID
from tests.integration.gateway.conftest import Platform, StartPlatform, question


async def refused(platform: Platform, *metadata: tuple[str, str]) -> str:
    """The reason for which a call is refused; nothing may have reached the runtime."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert platform.calls == []
    return error_detail(caught.value).reason


def part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def other_key(platform: Platform) -> str:
    claims = jwt.decode(platform.token(), options={"verify_signature": False})
    return jwt.encode(claims, generate_keypair().private_pem, algorithm=EDDSA, headers={"kid": KEY_ID})


def algorithm_none(platform: Platform) -> str:
    _, claims, _ = platform.token().split(".")
    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': KEY_ID})}.{claims}."


def public_key_as_secret(platform: Platform) -> str:
    _, claims, _ = platform.token().split(".")
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': KEY_ID})}.{claims}"
    digest = hmac.new(platform.issuer_keys.public_pem.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def tampered(platform: Platform) -> str:
    header, claims, signature = platform.token().split(".")
    content = json.loads(base64.urlsafe_b64decode(claims + "=="))
    return f"{header}.{part({**content, 'roles': ['admin']})}.{signature}"


def unknown_key_id(platform: Platform) -> str:
    claims = jwt.decode(platform.token(), options={"verify_signature": False})
    return jwt.encode(claims, platform.issuer_keys.private_pem, algorithm=EDDSA, headers={"kid": "another"})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda p: p.token(exp=int(time.time()) - 60), "TOKEN_EXPIRED", id="expired"),
        pytest.param(lambda p: p.token(aud="somebody-else"), "TOKEN_INVALID", id="wrong audience"),
        pytest.param(lambda p: p.token(aud=None), "TOKEN_INVALID", id="no audience"),
        pytest.param(lambda p: p.token(iss="https://elsewhere.test"), "TOKEN_INVALID", id="wrong issuer"),
        pytest.param(lambda p: p.token(exp=None), "TOKEN_INVALID", id="no expiry"),
        pytest.param(lambda p: p.token(iat=int(time.time()) + 600), "TOKEN_INVALID", id="from the future"),
        pytest.param(lambda p: p.token(sub=""), "TOKEN_INVALID", id="empty subject"),
        pytest.param(lambda p: p.token(roles={"admin": True}), "TOKEN_INVALID", id="roles are no list"),
        pytest.param(lambda p: p.token(roles=7), "TOKEN_INVALID", id="roles are a number"),
        pytest.param(lambda p: p.token(exp=int(time.time()) + 90_000), "TOKEN_INVALID", id="good for too long"),
        pytest.param(lambda p: p.token(exp=1e308), "TOKEN_INVALID", id="good for ever"),
        pytest.param(other_key, "TOKEN_INVALID", id="wrong key"),
        pytest.param(unknown_key_id, "TOKEN_INVALID", id="unknown key id"),
        pytest.param(algorithm_none, "TOKEN_INVALID", id="algorithm none"),
        pytest.param(public_key_as_secret, "TOKEN_INVALID", id="public key as HS256 secret"),
        pytest.param(tampered, "TOKEN_INVALID", id="tampered"),
        pytest.param(lambda p: p.token() + "A" * 5000, "TOKEN_INVALID", id="long"),
        pytest.param(lambda _: "not-a-token", "TOKEN_INVALID", id="garbage"),
        pytest.param(lambda _: "", "TOKEN_INVALID", id="empty"),
    ],
)
async def test_a_bad_token_is_refused_with_its_reason(
    platform: Platform, make: Callable[[Platform], str], reason: str
) -> None:
    assert await refused(platform, ("authorization", f"Bearer {make(platform)}")) == reason


@pytest.mark.parametrize("metadata", [(), (("authorization", "Basic MjcK"),), (("x-token", "27"),)])
async def test_no_token_is_refused(platform: Platform, metadata: tuple[tuple[str, str], ...]) -> None:
    assert await refused(platform, *metadata) == "TOKEN_MISSING"


async def test_a_second_token_is_refused_whichever_comes_first(platform: Platform) -> None:
    mine, others = platform.auth(), platform.auth("31")
    assert await refused(platform, *mine, *others) == "TOKEN_INVALID"
    assert await refused(platform, *others, *mine) == "TOKEN_INVALID"


async def test_streams_are_guarded_too(platform: Platform) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(aiter(platform.stub.WatchRun(runs_pb2.WatchRunRequest())))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert platform.calls == []


async def test_the_runtime_learns_who_calls_and_not_the_callers_token(platform: Platform) -> None:
    metadata = (*platform.auth("27", roles=["admin", "operator"]), ("x-forwarded-user", "1"))
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=metadata)
    [(_, _, caller)] = platform.calls  # the replica has verified the gateway's own token
    assert caller == Caller("27", frozenset({"admin", "operator"}))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["admin", "operator"]}}),
        ("scope", {"scope": "admin operator"}),
        ("https://example.com/roles", {"https://example.com/roles": ["admin", "operator"]}),
        ("groups.of.none", {"groups": {}}),
    ],
)
async def test_roles_are_where_the_issuer_puts_them(
    start_platform: StartPlatform, claim: str, said: dict[str, Any]
) -> None:
    platform = await start_platform(jwt_roles_claim=claim)
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=platform.auth(**said))
    [(_, _, caller)] = platform.calls
    assert caller.roles == (frozenset() if claim == "groups.of.none" else {"admin", "operator"})


async def test_claims_that_are_passed_on_come_from_the_token_alone(start_platform: StartPlatform) -> None:
    platform = await start_platform(jwt_passed_claims="tenant, region")
    said = platform.auth(tenant="north", other="x", claims={"tenant": "south", "region": "west"})
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=(*said, ("tenant", "south")))
    [(_, _, caller)] = platform.calls
    assert (caller.subject, dict(caller.claims)) == ("27", {"tenant": "north"})


@pytest.mark.parametrize(
    "tenant", ["", 7, True, ["north"], {"a": "b"}, "x" * 129, "no\x00rth", "no\nrth", "no\u202erth"]
)
async def test_a_claim_that_is_passed_on_and_is_no_name_is_refused(
    start_platform: StartPlatform, tenant: object
) -> None:
    platform = await start_platform(jwt_passed_claims="tenant")
    assert await refused(platform, *platform.auth(tenant=tenant)) == "TOKEN_INVALID"


async def test_a_claim_that_is_not_passed_on_may_be_anything(platform: Platform) -> None:
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=platform.auth(tenant=["north"]))
    [(_, _, caller)] = platform.calls
    assert not caller.claims


@pytest.mark.parametrize("adopt_traceparent", [False, True])
async def test_the_ids_that_a_caller_brings_are_not_believed(
    start_platform: StartPlatform, adopt_traceparent: bool
) -> None:
    """They would stand in every service's logs and spans, as those of a run that is another's."""
    platform = await start_platform(adopt_traceparent=adopt_traceparent)
    forged = "signalbox.run_id=theirs,signalbox.decision_id=theirs,signalbox.correlation_id=theirs"
    metadata = (*platform.auth(), ("baggage", forged))
    await platform.stub.CreateRun(question(correlation_id="mine"), metadata=metadata)
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=metadata)
    arrived = [carried for replica in platform.replicas for carried in replica.baggage]
    assert sorted(arrived, key=len) == [{}, {"signalbox.correlation_id": "mine"}]
