"""Runs the portal for development; in production a WSGI server imports `portal.app:create_app`."""

from portal.app import create_app

if __name__ == "__main__":
    create_app().run(host="127.0.0.1", port=8080)
