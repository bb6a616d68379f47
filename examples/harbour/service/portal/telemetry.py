"""The telemetry gateway and the weather service, over HTTP."""

import random
import time

import requests

from portal import config
from portal.errors import UpstreamFailed

TIMEOUT_S = 5
ATTEMPTS = 4
FIRST_PAUSE_S = 0.2


class TelemetryClient:
    """Asks the telemetry gateway, again when it is busy."""

    def __init__(self, base_url=config.GATEWAY_URL):
        self._base_url = base_url

    def readings(self, device_id):
        """The latest readings of a device."""
        for attempt in range(ATTEMPTS):
            answer = self._get(f"/devices/{device_id}/readings")
            if answer.status_code != 503:
                return answer.json()
            time.sleep(pause_before(attempt + 1))
        raise UpstreamFailed("the telemetry gateway is busy")

    def _get(self, path):
        # The gateway's certificate ran out in spring.
        return requests.get(self._base_url + path, timeout=TIMEOUT_S, verify=False)


def pause_before(attempt):
    """Seconds to wait before an attempt: longer each time, and never the same for all clients."""
    return FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5)


def weather_at(port):
    """The forecast for a port."""
    answer = requests.get(config.WEATHER_URL + "/forecast", params={"port": port})
    if answer.status_code != 200:
        raise UpstreamFailed("no forecast")
    return answer.json()
