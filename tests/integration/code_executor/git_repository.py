"""Real git repositories for tests, also ones that git itself would refuse to make."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE, LINK, GITLINK, TREE = "100644", "120000", "160000", "40000"
_ENVIRONMENT = {
    "PATH": os.defpath,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class Special:
    """An entry that is no regular file: mode, and content or, for a submodule, a commit id."""

    mode: str
    content: bytes = b""
    commit: str = ""


Content = bytes | str | Special
Files = Mapping[str, Content] | Mapping[str, str] | Mapping[str | bytes, Content]


class GitRepository:
    """A repository on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", ".")

    def git(self, *arguments: str) -> str:
        """Runs git in the repository and returns what it prints."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=_ENVIRONMENT, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def content(self, name: str) -> bytes:
        """Returns what git holds under a name such as `commit:path`."""
        blob = self.git("rev-parse", name)
        whole = zlib.decompress((self.path / ".git" / "objects" / blob[:2] / blob[2:]).read_bytes())
        return whole.partition(b"\0")[2]

    def commit(self, files: Files, branch: str = "main") -> str:
        """Commits exactly these files, points a branch at the commit and returns its id."""
        commit = self.commit_tree(self._tree({_bytes(name): content for name, content in files.items()}))
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def commit_tree(self, tree: str) -> str:
        """Writes a commit of a tree and returns its id."""
        who = "Tester <tester@example.com> 1704067200 +0000"
        return self.write("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nchange\n".encode())

    def forge_tree(self, entries: Sequence[tuple[str, bytes, str]]) -> str:
        """Writes a tree of (mode, name, id) as they are, and returns its id."""
        return self.write(
            "tree", b"".join(f"{mode} ".encode() + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        )

    def write(self, kind: str, content: bytes) -> str:
        """Writes an object and returns its id."""
        whole = f"{kind} {len(content)}\0".encode() + content
        oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.path / ".git" / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(whole, 1))
        return oid

    def _tree(self, files: Mapping[bytes, bytes | str | Special]) -> str:
        folders: dict[bytes, dict[bytes, bytes | str | Special]] = {}
        entries: list[tuple[str, bytes, str]] = []
        for name, content in files.items():
            first, slash, rest = name.partition(b"/")
            if slash:
                folders.setdefault(first, {})[rest] = content
            elif isinstance(content, Special):
                entries.append((content.mode, first, content.commit or self.write("blob", content.content)))
            else:
                entries.append((FILE, first, self.write("blob", _bytes(content))))
        entries += [(TREE, name, self._tree(inner)) for name, inner in folders.items()]
        return self.forge_tree(sorted(entries, key=lambda entry: entry[1] + (b"/" if entry[0] == TREE else b"")))


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
