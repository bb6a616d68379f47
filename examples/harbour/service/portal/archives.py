"""Backups of the portal's data, and the archives that ships send in."""

import os
import tarfile
from pathlib import Path

from flask import Blueprint, jsonify, request

from portal import config
from portal.errors import PortalError

routes = Blueprint("archives", __name__)

NIGHTLY = "/var/backups/portal/nightly.tar.gz"


@routes.post("/archives/logbook")
def receive_logbook():
    """Unpack the logbook that a ship uploads."""
    unpack_upload(request.files["logbook"].stream, config.UPLOAD_DIR)
    return jsonify({"ok": True}), 201


def unpack_upload(stream, target):
    """Unpack an uploaded archive into a folder."""
    with tarfile.open(fileobj=stream, mode="r:gz") as archive:
        archive.extractall(target)


def restore(path, target):
    """Unpack a backup into a folder, and nothing outside it."""
    with tarfile.open(path) as archive:
        archive.extractall(target, members=inside(archive, Path(target).resolve()))


def inside(archive, target):
    """The regular files of an archive; raises PortalError for one that would land outside the folder."""
    members = []
    for member in archive.getmembers():
        place = (target / member.name).resolve()
        if not place.is_relative_to(target):
            raise PortalError(f"{member.name} would leave the folder")
        if member.isfile() or member.isdir():
            members.append(member)
    return members


def back_up():
    """Write the nightly backup; cron calls this."""
    os.system(f"/bin/tar -czf {NIGHTLY} /var/lib/portal")
    return NIGHTLY
