"""What happens to the database when the world is not kind: killed writers, locks, full and read-only disks, damage."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuning_db.examples import confirmation, context, trial
from tuner.errors import StorageError
from tuning_db.engine import open_database
from tuning_db.models import SCHEMA_VERSION
from tuning_db.repository import Repository

NOBODY = 65534


def start_writer(
    path: Path, run_id: str, count: int, before: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.tuning_db.writer", f"sqlite:///{path}", run_id, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before)


def stored_ids(path: Path) -> set[str]:
    with open_database(str(path)) as database:
        return {r.id for r in Repository(database).list_records(limit=10_000)}


def is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and not broken
    finally:
        connection.close()


def one_line(caught: pytest.ExceptionInfo[StorageError]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("seed", range(4))
def test_what_was_stored_survives_kill_9_at_any_moment(db_path: Path, seed: int) -> None:
    moment = random.Random(seed)
    with start_writer(db_path, "run-1", 100_000) as writer:
        assert writer.stdout is not None
        promised = [writer.stdout.readline().strip()]
        time.sleep(moment.uniform(0.0, 0.3))
        os.kill(writer.pid, signal.SIGKILL)
        # The last line may be cut short by the kill: only whole lines are promises.
        promised += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert writer.returncode == -signal.SIGKILL
    kept = stored_ids(db_path)
    assert set(promised) <= kept
    assert len(kept) <= len(promised) + 1, "at most the record whose call had not returned yet"
    assert is_sound(db_path)


def test_two_processes_write_and_a_third_reads_at_once(db_path: Path) -> None:
    """Both also open a database that does not exist yet, at the same moment."""
    with start_writer(db_path, "run-a", 60) as first, start_writer(db_path, "run-b", 60) as second:
        written: list[str] = []
        while first.poll() is None or second.poll() is None:
            if db_path.exists():
                stored_ids(db_path)
            time.sleep(0.01)
        for writer in (first, second):
            out, err = writer.communicate()
            assert (writer.returncode, err) == (0, "")
            written += out.split()
    assert len(set(written)) == 120
    assert stored_ids(db_path) == set(written)
    with open_database(str(db_path)) as database:
        for record_id in written:
            record = Repository(database).get_record(record_id)
            assert (record.trace_json, record.artifact_sha256) == (
                f'[["Trace", {record.trial}]]',
                f"{record.trial:064x}",
            )
        assert len(Repository(database).list_records(only_published=True)) == 1


def test_a_writer_waits_for_another_and_says_so_when_it_takes_too_long(db_path: Path) -> None:
    with open_database(str(db_path), busy_timeout_s=0.2) as database:
        repository = Repository(database)
        repository.open_run(context())
        holder = sqlite3.connect(db_path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked by another process") as caught:
            repository.record("run-1", trial(0))
        assert "0.2 s" in one_line(caught)
        assert repository.list_records() == [], "readers are not kept out"
        holder.execute("ROLLBACK")
        holder.close()
        repository.record("run-1", trial(0))


def test_opening_waits_for_a_lock_too(db_path: Path) -> None:
    holder = sqlite3.connect(db_path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match="locked by another process") as caught:
        open_database(str(db_path), busy_timeout_s=0.2)
    one_line(caught)
    holder.close()


@pytest.mark.parametrize("content", [b"garbage, no database\n" * 500, b"SQLite format 3\0" + bytes(5000), b"\0" * 4096])
def test_a_file_that_is_no_database_is_left_as_it_is(db_path: Path, content: bytes) -> None:
    db_path.write_bytes(content)
    with pytest.raises(StorageError, match=r"is not a database|is damaged") as caught:
        open_database(str(db_path))
    assert "--db" in one_line(caught)
    assert db_path.read_bytes() == content


def test_a_damaged_page_is_reported_and_the_rest_stays_readable(db_path: Path) -> None:
    with open_database(str(db_path)) as database:
        repository = Repository(database)
        repository.open_run(context())
        for number in range(200):
            repository.record("run-1", trial(number))
    size = db_path.stat().st_size
    with db_path.open("r+b") as file:  # the later half: the schema stays readable, the trials do not
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    with pytest.raises(StorageError, match="damaged") as caught, open_database(str(db_path)) as database:
        Repository(database).list_records(limit=1000)
    one_line(caught)


def test_another_programs_database_is_refused(db_path: Path) -> None:
    connection = sqlite3.connect(db_path)
    connection.execute("CREATE TABLE cookies (id INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match=r"another program.*cookies") as caught:
        open_database(str(db_path))
    one_line(caught)


def test_a_newer_schema_is_refused_and_says_what_to_do(db_path: Path) -> None:
    open_database(str(db_path)).close()
    connection = sqlite3.connect(db_path)
    connection.execute(f"UPDATE schema_version SET version = {SCHEMA_VERSION + 1}")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match=f"schema {SCHEMA_VERSION + 1}.*upgrade") as caught:
        open_database(str(db_path))
    one_line(caught)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "three slashes"),
        ("sqlite:///:memory:", "names no file"),
        ("", "names no file"),
        ("sqlite://relative.db", "three slashes"),
        ("postgresql://localhost/x", "'postgresql'"),
        ("nonsense://x", "'nonsense'"),
        ("bad\0name.db", "null byte"),
        ("~nobody-by-this-name/x.db", "home directory"),
    ],
)
def test_a_url_that_can_not_be_served_is_refused(url: str, said: str) -> None:
    with pytest.raises(StorageError, match=said) as caught:
        open_database(url)
    one_line(caught)


def test_odd_places(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a directory"):
        open_database(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't make the directory"):
        open_database(str(tmp_path / "file" / "x.db"))
    with pytest.raises(StorageError, match="--db"):
        open_database(f"/proc/{os.getpid()}/x.db")
    for name in ("deep/er/x.db", "mode=ro?a#b %20.db", "ünïcode and space.db"):
        open_database(f"sqlite:///{tmp_path / name}").close()
        assert (tmp_path / name).is_file(), "the name is a file's, never a query"


def test_a_read_only_directory_is_one_clear_line(db_path: Path) -> None:
    """In a forked child without root's rights, for root may write everywhere; it answers through a pipe."""
    open_database(str(db_path)).close()  # what is imported late may lie where the child can't read
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o555)
        answers, answer = os.pipe()
        child = os.fork()
        if child == 0:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            try:
                open_database(f"{place}/x.db")
            except StorageError as error:
                os.write(answer, str(error).encode())
            finally:
                os._exit(0)
        os.close(answer)
        os.waitpid(child, 0)
        with os.fdopen(answers) as pipe:
            message = pipe.read()
    assert f"can't open database {place}/x.db: it can't be opened or its journal can't be made" in message
    assert "\n" not in message


def test_a_full_disk_ends_in_one_clear_line_and_keeps_what_was_stored(db_path: Path) -> None:
    """A limit on file size makes the kernel refuse the write, as a full disk does."""
    limit = 400_000

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with start_writer(db_path, "run-1", 100_000, limited) as writer:
        out, err = writer.communicate()
    assert writer.returncode == 1
    last = err.strip().splitlines()[-1]
    assert "StorageError" in last
    assert "the disk is full" in last
    assert len(out.split()) > 10
    assert stored_ids(db_path) == set(out.split())
    assert is_sound(db_path)


def test_a_truly_full_disk_ends_the_same_way(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        with start_writer(place / "x.db", "run-1", 100_000) as writer:
            out, err = writer.communicate()
        assert writer.returncode == 1
        assert "the disk is full" in err.strip().splitlines()[-1]
        assert len(out.split()) > 10
        assert stored_ids(place / "x.db") == set(out.split())
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_schedule_published_by_two_processes_at_once_is_the_better_one(db_path: Path) -> None:
    """Each process confirms in its own transaction; whichever comes last, the better stays."""
    with open_database(str(db_path)) as one, open_database(str(db_path)) as other:
        best = None
        for number, (database, speedup) in enumerate([(one, 2.0), (other, 4.0), (one, 3.0)]):
            repository = Repository(database)
            repository.open_run(context(f"run-{number}"))
            repository.record(f"run-{number}", trial(0))
            record_id = repository.confirm(f"run-{number}", confirmation(0, speedup))
            best = record_id if speedup == 4.0 else best
        assert [r.id for r in Repository(one).list_records(only_published=True)] == [best]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_or_replaced_in_use_is_told_at_the_next_write(db_path: Path, replaced: bool) -> None:
    with open_database(str(db_path)) as database:
        repository = Repository(database)
        repository.open_run(context())
        for name in db_path.parent.glob(f"{db_path.name}*"):
            name.unlink()
        if replaced:
            open_database(str(db_path)).close()
        with pytest.raises(StorageError) as caught:
            repository.record(context().run_id, trial(0))
    assert "deleted or replaced" in one_line(caught)
