"""The platform as production has it against the bare graph in one process, which has none of it.

On are: spans to a collector, mTLS on every hop, logs at INFO, the issuer's keys by URL, two replicas of the runtime.
The collector's CPU counts as little as the model's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.bench_platform import BARE, LEAN, PLATFORM, ROUNDS, WARM_UP_RUNS, Found, show, take_turns
from tests.bench.contenders import contenders, ground
from tests.bench.model_script import SCRIPT
from tests.bench.span_collector import collector_process
from tests.fixtures.hardened import hardening


async def measure(rounds: int) -> Found:
    """Runs all of them, taking turns."""
    with TemporaryDirectory() as folder:
        async with (
            collector_process() as collector, hardening(Path(folder)) as on,
            ground(
                SCRIPT, directory=on.folder, service_env=on.service_env(), otlp_endpoint=collector.endpoint,
                log_level="INFO", runtime_replicas=2,
            ) as where,
            contenders(where, on.channel(where.stack.gateway_address)) as (platform, baseline),
        ):  # fmt: skip
            found = await take_turns({PLATFORM: platform, BARE: baseline, LEAN: baseline.but(lean=True)}, rounds)
        warm_up = 2 * WARM_UP_RUNS
        runs = warm_up + sum(
            batch.runs for (name, _), batches in found.batches.items() for batch in batches if name == PLATFORM
        )
        print(f"{collector.spans / runs:.1f} spans a run were sent")  # noqa: T201
        return found


def main() -> None:
    """Measures, and prints the ratios."""
    show(asyncio.run(measure(ROUNDS)))


if __name__ == "__main__":
    main()
