"""What the tests of several engines share: a PostgreSQL server of our own."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDERS = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), *os.get_exec_path()]
SERVER = next((folder for folder in FOLDERS if Path(folder, "initdb").exists()), None)

needs_postgres = pytest.mark.skipif(SERVER is None, reason="needs PostgreSQL's server programs (initdb)")


def _user() -> str | None:
    """Who runs the server: it refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    pytest.skip("PostgreSQL's server does not run as root, and there is no user postgres")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server of our own on loopback; its password is ``s3cret``.

    Its folder is none of pytest's, which nobody else may enter.
    """
    user = _user()
    with tempfile.TemporaryDirectory(prefix="loom-postgres-", ignore_cleanup_errors=True) as folder:
        if user is not None:
            shutil.chown(folder, user)
        yield from _serving(Path(folder), user)


def _serving(folder: Path, user: str | None) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = folder / "password"
    password.write_text("s3cret")
    password.chmod(0o644)
    options: dict[str, Any] = {"user": user, "cwd": "/", "capture_output": True, "check": True, "timeout": 60}
    data = str(folder / "data")
    initdb = [f"{SERVER}/initdb", "-D", data, "-U", "loom", "-A", "scram-sha-256", f"--pwfile={password}", "-N"]
    try:
        subprocess.run(initdb, **options)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"PostgreSQL cannot be set up here: {problem.stderr.decode()[-200:]}")
    start = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    log = str(folder / "log")
    subprocess.run(
        [f"{SERVER}/pg_ctl", "-D", data, "-w", "-o", start, "-l", log, "start"], **options | {"capture_output": False}
    )
    yield f"postgresql://loom:s3cret@127.0.0.1:{port}/postgres"
    os.kill(int(Path(data, "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
