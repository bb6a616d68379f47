"""What the harbour office looks at when a ship does not answer."""

import ipaddress
import subprocess

from flask import Blueprint, jsonify, request

from portal.errors import NotAllowed, PortalError
from portal.sessions import current_crew
from portal.telemetry import weather_at

routes = Blueprint("diagnostics", __name__)

PING = "/bin/ping"
TRACE = "/usr/bin/traceroute"
LIMIT_S = 20


@routes.before_request
def officers_only():
    """Nothing here is for everybody."""
    if not current_crew()["is_officer"]:
        raise NotAllowed("for officers")


@routes.get("/diagnostics/ping")
def ping():
    """Whether a host answers."""
    return jsonify({"output": run_ping(request.args["host"])})


def run_ping(host):
    """What ping says of a host."""
    done = subprocess.run(f"{PING} -c 1 {host}", shell=True, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout


@routes.get("/diagnostics/trace")
def trace():
    """The way to an address."""
    try:
        address = ipaddress.ip_address(request.args["address"])
    except ValueError as error:
        raise PortalError("that is not an address") from error
    done = subprocess.run([TRACE, "-n", str(address)], capture_output=True, text=True, timeout=LIMIT_S)
    return jsonify({"output": done.stdout})


@routes.get("/diagnostics/disk")
def disk():
    """How full the disk is."""
    usage = subprocess.check_output("/bin/df --output=pcent / | /usr/bin/tail -n 1", shell=True, text=True)
    return jsonify({"used": usage.strip()})


@routes.get("/diagnostics/weather")
def weather():
    """The forecast where a ship lies."""
    return jsonify(weather_at(request.args.get("port", "")))
