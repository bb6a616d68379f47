"""What `signalbox doctor` finds wrong of this machine, and the command that mends it."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from services.cli import examination
from services.cli.examination import (
    LEAST_FREE_BYTES,
    MOST_CLOCK_DIFFERENCE_S,
    Found,
    examine_clock,
    examine_disk,
    examine_packages,
)

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "found"), [(LEAST_FREE_BYTES - 1, Found.WRONG), (LEAST_FREE_BYTES, Found.WELL)])
def test_a_disk_without_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, found: Found) -> None:
    looked_at: list[Path] = []

    def usage(place: Path) -> Usage:
        looked_at.append(place)
        return Usage(0, 0, free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    told = examine_disk(tmp_path / "not" / "there yet")
    assert (told.found, looked_at) == (found, [tmp_path])
    assert ("SIGNALBOX_RUNTIME_DIR" in told.mend) == (found is Found.WRONG)


@pytest.mark.parametrize("ahead_s", [MOST_CLOCK_DIFFERENCE_S + 1, -MOST_CLOCK_DIFFERENCE_S - 1])
def test_a_clock_that_is_off_whoever_is_ahead(ahead_s: float) -> None:
    told = examine_clock({"the model": 0.1, "the database": ahead_s})
    assert (told.found, told.mend) == (Found.WRONG, "timedatectl set-ntp true, here or there")
    assert told.seen.startswith("the database is ")
    assert told.seen.endswith("ahead" if ahead_s > 0 else "behind")
    assert examine_clock({"the database": ahead_s / 10}).found is Found.WELL
    assert examine_clock({}).found is Found.NOT_LOOKED_AT


def test_packages_that_are_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.found for each in examine_packages()] == [Found.WELL]
    asked = ["grpcio>=9999", "no-such-package>=1", "no-such-extra; extra == 'local'", "elsewhere; sys_platform == 'x'"]
    monkeypatch.setattr(examination, "requires", lambda _name: asked)
    [told] = examine_packages()
    assert (told.found, told.mend) == (Found.WRONG, "make run, or uv sync --extra local")
    assert "wanted is >=9999" in told.seen
    assert "no-such-package is missing" in told.seen
    assert "no-such-extra" not in told.seen
    assert "elsewhere" not in told.seen
