"""The gateway of an installed release, as a caller on this machine reaches it: by a forwarded port of one pod."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from tests.cluster.cluster import NAMESPACE, Cluster, is_ready
from tests.cluster.given import SUBJECT, Given
from tests.fixtures.client import RunClient
from tests.fixtures.stack import Deployed

PORT = 50051
METRICS_PORT = 9464
_SAID = re.compile(r"Forwarding from (127\.0\.0\.1:\d+)")


@asynccontextmanager
async def gateway(cluster: Cluster, given: Given, *, elsewhere_than: str = "") -> AsyncIterator[Deployed]:
    """Forwards a port to a gateway's pod, until the end; if a node is named, to one of another node."""
    pods = [pod for pod in cluster.pods("gateway") if is_ready(pod) and pod["spec"]["nodeName"] != elsewhere_than]
    pod = pods[0]["metadata"]["name"]
    forwarding = await asyncio.create_subprocess_exec(
        str(cluster.tools / "kubectl"), "--namespace", NAMESPACE, "port-forward", f"pod/{pod}", f":{PORT}",
        env=cluster.env, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert forwarding.stdout is not None
        line = (await forwarding.stdout.readline()).decode()
        said = _SAID.match(line)
        assert said, f"kubectl port-forward said {line!r}"
        async with grpc.aio.insecure_channel(said[1]) as channel:
            yield Deployed(said[1], channel, given.token)
    finally:
        forwarding.terminate()
        await forwarding.communicate()


@asynccontextmanager
async def caller(cluster: Cluster, given: Given) -> AsyncIterator[RunClient]:
    """A caller at the gateway, until the end."""
    async with gateway(cluster, given) as deployed:
        yield deployed.caller(SUBJECT)


def counted(cluster: Cluster, pod: str, metric: str) -> float:
    """Returns the sum of a metric's series in one pod, read through the API server."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{METRICS_PORT}/proxy/metrics"
    lines = cluster.kubectl("get", "--raw", path).splitlines()
    return sum(float(line.split()[1]) for line in lines if re.match(rf"{metric}[{{ ]", line))
