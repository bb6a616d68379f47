"""Makes the demo service into a git repository: `python -m examples.harbour.repository FOLDER`.

RepositoryError
├── FolderNotEmptyError   there is something in the folder already
└── GitFailedError        git is missing, or refused
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

SERVICE = Path(__file__).with_name("service")
TRUTH = SERVICE.with_name("service_truth.yaml")
KNOWN_FALSE_POSITIVES = SERVICE.with_name("service_known_false_positives.yaml")
FINDINGS = SERVICE.with_name("service_findings.json")

# Everything that a commit id is made of is fixed: the files, who, and when (the world's present).
WHO = "Harbour portal"
MAIL = "portal@harbour.example"
WHEN = "2026-01-31T12:00:00+00:00"
MESSAGE = "The harbour portal"

_GIT_TIMEOUT_S = 60


class RepositoryError(Exception):
    """The repository can't be made."""


class FolderNotEmptyError(RepositoryError):
    """The folder holds something already, and it might be somebody's work."""


class GitFailedError(RepositoryError):
    """Git did not do its part."""


@dataclass(frozen=True)
class ServiceRepository:
    """The repository that was made, and its only commit."""

    path: str
    commit: str


def create(folder: Path, files: Mapping[str, bytes] | None = None, message: str = MESSAGE) -> ServiceRepository:
    """Make a repository in an empty or new folder: of the demo service, or of files by path.

    The commit is the same each time. Raises RepositoryError.
    """
    if files is None:
        files = {str(source.relative_to(SERVICE)): source.read_bytes() for source in service_files()}
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FolderNotEmptyError(f"{folder} is not empty: name a new folder")
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o644)
    _git(folder, "init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", message)
    return ServiceRepository(str(folder), _git(folder, "rev-parse", "HEAD").strip())


def service_files() -> list[Path]:
    """The files of the service, without what running or checking it leaves behind."""
    files = (path for path in SERVICE.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(_is_left_behind(part) for part in path.relative_to(SERVICE).parts))


def _is_left_behind(part: str) -> bool:
    return part == "__pycache__" or (part.startswith(".") and part.endswith("_cache"))


def _git(folder: Path, *arguments: str) -> str:
    # Nobody's configuration and nothing of a surrounding repository: both could change the commit.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _identity().items()},
    }
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the git that the person uses
            env=environment,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except FileNotFoundError as error:
        raise GitFailedError("git is not installed; install it") from error
    except subprocess.CalledProcessError as error:
        raise GitFailedError(f"git {arguments[0]} failed: {error.stderr.strip()}") from error
    return done.stdout


def _identity() -> dict[str, str]:
    return {"NAME": WHO, "EMAIL": MAIL, "DATE": WHEN}


def run(arguments: list[str], make: Callable[[Path], ServiceRepository]) -> int:
    """Make a repository in the folder that is named, and print where it is and its commit, as JSON."""
    if len(arguments) != 1:
        sys.stderr.write("usage: give the folder that the repository is to be in, and nothing else\n")
        return 2
    try:
        made = make(Path(arguments[0]))
    except RepositoryError as error:
        sys.stderr.write(f"harbour: {error}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(made)) + "\n")
    return 0


def main(arguments: list[str]) -> int:
    """Make the demo service's repository in the folder that is named."""
    return run(arguments, create)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
