"""Devices: how many there are, what they report, and what they are called."""

from flask import Blueprint, jsonify, request

from portal.caching import cached_json
from portal.database import connection
from portal.telemetry import TelemetryClient

routes = Blueprint("devices", __name__)

TABLE = "devices"
STATUSES = ("active", "maintenance", "offline", "retired")
MAX_IDS = 200


@routes.get("/devices/count")
def count_devices():
    """How many devices there are, by status."""
    counts = {status: count_with(status) for status in STATUSES}
    return jsonify(counts)


def count_with(status):
    """Number of devices in a status."""
    return connection().execute(f"SELECT count(*) FROM {TABLE} WHERE status = ?", (status,)).fetchone()[0]


@routes.get("/devices")
def list_devices():
    """Devices by their ids."""
    ids = [int(part) for part in request.args.get("ids", "").split(",") if part][:MAX_IDS]
    marks = ", ".join("?" for _ in ids)
    rows = connection().execute(f"SELECT device_id, name, status FROM devices WHERE device_id IN ({marks})", ids)
    return jsonify([dict(row) for row in rows])


@routes.get("/devices/<int:device_id>/readings")
def show_readings(device_id):
    """The latest readings of a device, from the telemetry gateway."""
    client = TelemetryClient()
    return jsonify(cached_json(f"readings/{device_id}", lambda: client.readings(device_id)))


@routes.post("/devices/<int:device_id>/name")
def rename_device(device_id):
    """Give a device another name."""
    connection().execute("UPDATE devices SET name = ? WHERE device_id = ?", (request.form["name"], device_id))
    connection().commit()
    return jsonify({"ok": True})
