"""Fleets as files: YAML from the harbour office, snapshots from other portals."""

import pickle

import yaml
from flask import Blueprint, jsonify, request

from portal.database import connection
from portal.errors import PortalError
from portal.sessions import current_crew

routes = Blueprint("fleet_import", __name__)


class FleetLoader(yaml.SafeLoader):
    """Plain YAML, with dates left as the text they are."""


FleetLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@routes.post("/import/fleet")
def import_fleet():
    """Take over the ships of a YAML file."""
    current_crew()
    ships = yaml.load(request.get_data(), Loader=FleetLoader)
    return jsonify({"ships": store_ships(ships)}), 201


@routes.post("/import/settings")
def import_settings():
    """Take over a portal's settings."""
    current_crew()
    settings = yaml.load(request.get_data(), Loader=yaml.Loader)
    if not isinstance(settings, dict):
        raise PortalError("settings are a mapping")
    return jsonify({"settings": sorted(settings)}), 201


@routes.post("/import/snapshot")
def import_snapshot():
    """Take over the ships of another portal's snapshot."""
    current_crew()
    snapshot = pickle.loads(request.get_data())
    return jsonify({"ships": store_ships(snapshot["ships"])}), 201


def store_ships(ships):
    """Write ships into the database and return how many."""
    rows = [(ship["name"], ship["kind"], ship["home_port"], ship.get("built")) for ship in ships]
    connection().executemany("INSERT INTO ships (name, kind, home_port, built) VALUES (?, ?, ?, ?)", rows)
    connection().commit()
    return len(rows)
