"""The application and its routes."""

from flask import Flask, jsonify

from portal import archives, charts, config, crews, database, devices, diagnostics, fleet_import, ships
from portal.errors import PortalError


def create_app() -> Flask:
    """Make the WSGI application."""
    config.prepare()
    database.create()
    app = Flask("portal")
    app.config["MAX_CONTENT_LENGTH"] = config.MAX_UPLOAD_BYTES
    for part in (ships, devices, crews, charts, archives, diagnostics, fleet_import):
        app.register_blueprint(part.routes)
    app.teardown_appcontext(database.close)
    app.register_error_handler(PortalError, _show_error)
    return app


def _show_error(error: PortalError):
    return jsonify({"error": str(error)}), error.status
