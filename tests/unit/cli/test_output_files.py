"""Files that commands write are there whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from services.cli.errors import CliError
from services.cli.output_files import OutputFile


def half_written(file: Path, error: BaseException) -> None:
    """Writes a part of a file, and then what ends it happens."""
    with OutputFile(file).written_whole("do that") as part:
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
    OutputFile(link).write_text("after")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("after", 0o640)


def test_the_mode_and_the_owner_of_a_file_that_was_removed_before_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("before")
    file.chmod(0o604)
    if os.getuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    output = OutputFile(file)
    output.check()
    output.remove_older()
    assert not file.exists()
    output.write_text("after")
    after = file.stat()
    assert [after.st_mode, after.st_uid, after.st_gid] == [before.st_mode, before.st_uid, before.st_gid]
    assert file.read_text() == "after"


def test_whose_group_can_not_be_kept_is_open_to_nobody_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    for before, after in [(0o640, 0o600), (0o664, 0o644)]:
        file = tmp_path / f"{before:o}"
        file.write_text("before")
        file.chmod(before)
        OutputFile(file).write_text("after")
        assert file.stat().st_mode & 0o777 == after


def test_links_in_a_circle_are_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(CliError, match="Too many levels of symbolic links"):
        OutputFile(one).check()


def test_a_full_temporary_folder_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with OutputFile(tmp_path / "out").written_whole(spooled=True) as part:
        part.write_text("needs none")
    device = OutputFile(Path("/dev/null"))
    with pytest.raises(CliError, match=f"can't write {tmp_path}/gone: ") as told, device.written_whole(spooled=True):
        pytest.fail("there is no folder")
    assert "TMPDIR" in told.value.hint


def test_a_device_takes_what_was_made_elsewhere(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with OutputFile(fifo).written_whole(spooled=True) as part:
        part.write_text("all of it")
        assert os.read(reader, 9) == b""
    assert os.read(reader, 9) == b"all of it"
    os.close(reader)


def test_what_a_link_leads_to_is_tried_removed_and_written(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    file, link, lost = tmp_path / "share" / "out.txt", tmp_path / "link.txt", tmp_path / "lost.txt"
    file.write_text("before")
    link.symlink_to(file)
    lost.symlink_to(tmp_path / "away" / "out.txt")
    OutputFile(link).check()
    OutputFile(link).remove_older()
    assert not file.exists()
    OutputFile(link).check()
    OutputFile(link).write_text("after")
    assert (link.is_symlink(), file.read_text()) == (True, "after")
    with pytest.raises(CliError, match="there is no directory"):
        OutputFile(lost).check()
    with pytest.raises(CliError, match="can't write"):
        OutputFile(Path("/dev/fd/999")).check()


def test_an_open_file_of_a_process_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "stdout"
    read, write = os.pipe()
    link.symlink_to(f"/proc/self/fd/{write}")
    for name in (link, Path(f"/proc/self/fd/{write}")):
        OutputFile(name).remove_older()
        OutputFile(name).write_text("said")
        assert os.read(read, 9) == b"said"
    with (tmp_path / "file").open("w") as file:
        opened = tmp_path / "opened"
        opened.symlink_to(f"/proc/self/fd/{file.fileno()}")
        OutputFile(opened).remove_older()
        OutputFile(opened).write_text("said")
    assert opened.is_symlink()
    assert (tmp_path / "file").read_text() == "said"
    os.close(read)
    os.close(write)


def test_a_device_is_written_to_and_not_replaced() -> None:
    OutputFile(Path("/dev/null")).write_text("nothing")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(CliError, match="No space left on device"):
        OutputFile(Path("/dev/full")).write_text("nothing")
