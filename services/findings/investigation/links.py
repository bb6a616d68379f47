"""Addresses of lines of code on the site that a repository is at."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

_BY_SSH = re.compile(r"(?:ssh://)?[\w.-]+@(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>[\w./~-]+)")
_HOST = re.compile(r"[\w.-]+(?::\d+)?")


class RepositoryLinks:
    """Links to a commit's lines: as GitHub has them, and GitLab and Bitbucket where the host's name says so."""

    def __init__(self, uri: str, commit: str) -> None:
        self._site = _site(uri)
        self._commit = commit

    def of(self, file: str, first_line: int, last_line: int) -> str:
        """Returns the address of lines; empty where the repository is at no such site."""
        if not (self._site and self._commit and file):
            return ""
        last = max(first_line, last_line)
        host = urlsplit(self._site).hostname or ""
        if "bitbucket" in host:
            return f"{self._site}/src/{self._commit}/{quote(file)}#lines-{first_line}:{last}"
        if "gitlab" in host:
            return f"{self._site}/-/blob/{self._commit}/{quote(file)}#L{first_line}-{last}"
        return f"{self._site}/blob/{self._commit}/{quote(file)}#L{first_line}-L{last}"


def _site(uri: str) -> str:
    """Returns a repository's page; nothing of a login that an address carries."""
    if by_ssh := _BY_SSH.fullmatch(uri):
        return f"https://{by_ssh['host']}/{_named(by_ssh['path'])}"
    try:
        parts = urlsplit(uri)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or not _named(parts.path):
        return ""
    return f"{parts.scheme}://{host}/{quote(_named(parts.path))}"


def _named(path: str) -> str:
    return path.strip("/").removesuffix(".git")
