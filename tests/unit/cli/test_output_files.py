"""Files that commands write are there whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from services.cli.errors import CliError
from services.cli.output_files import check_writable, remove_older, write_text, written_whole


def half_written(file: Path, error: BaseException) -> None:
    """Writes a part of a file, and then what ends it happens."""
    with written_whole(file, kept="do that") as part:
        part.write_text("half of")
        raise error


def test_a_file_that_can_not_be_finished_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("before")
    with pytest.raises(CliError, match="No space left on device") as told:
        half_written(file, OSError(errno.ENOSPC, "No space left on device"))
    assert told.value.hint == "do that"
    with pytest.raises(KeyboardInterrupt):
        half_written(file, KeyboardInterrupt())
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]


def test_a_link_and_a_mode_stay_as_they_are(tmp_path: Path) -> None:
    file, link = tmp_path / "kept.txt", tmp_path / "link.txt"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("after", 0o640)


def test_what_a_link_leads_to_is_tried_removed_and_written(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    file, link, lost = tmp_path / "share" / "out.txt", tmp_path / "link.txt", tmp_path / "lost.txt"
    file.write_text("before")
    link.symlink_to(file)
    lost.symlink_to(tmp_path / "away" / "out.txt")
    check_writable(link)
    remove_older(link)
    assert not file.exists()
    check_writable(link)
    write_text(link, "after")
    assert (link.is_symlink(), file.read_text()) == (True, "after")
    with pytest.raises(CliError, match="there is no directory"):
        check_writable(lost)
    with pytest.raises(CliError, match="can't write"):
        check_writable(Path("/dev/fd/999"))


def test_an_open_file_of_a_process_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "stdout"
    read, write = os.pipe()
    link.symlink_to(f"/proc/self/fd/{write}")
    for name in (link, Path(f"/proc/self/fd/{write}")):
        remove_older(name)
        write_text(name, "said")
        assert os.read(read, 9) == b"said"
    with (tmp_path / "file").open("w") as file:
        opened = tmp_path / "opened"
        opened.symlink_to(f"/proc/self/fd/{file.fileno()}")
        remove_older(opened)
        write_text(opened, "said")
    assert opened.is_symlink()
    assert (tmp_path / "file").read_text() == "said"
    os.close(read)
    os.close(write)


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_text(Path("/dev/null"), "nothing")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(CliError, match="No space left on device"):
        write_text(Path("/dev/full"), "nothing")
