"""Ingesting videos: fetch, convert, upload. The stored run was killed on the way."""

from __future__ import annotations

import os

from pytest_loom import SyncContext, current_step, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
def fetch(name: str) -> int:
    outside(f"fetch {name}")
    return 700


@step(retries=1)
def convert(name: str, megabytes: int) -> str:
    this = current_step()
    if this is not None and this.attempt == 1:
        raise ConnectionError("the converter is busy")
    outside(f"convert {name}, {megabytes} MB")
    return f"{name}.webm"


@step
def scan(file: str) -> None:
    outside(f"scan {file}")


@step
def upload(file: str, key: str) -> str:
    outside(f"upload {file} as {key}")
    return f"https://videos.example.org/{key}"


@flow(id="ingest", version="1.0.0", steps=[fetch, convert, scan, upload])
def ingest(ctx: SyncContext, name: str) -> str:
    megabytes = ctx.run(fetch, name)
    file = ctx.run(convert, name, megabytes)
    ctx.run(scan, file)
    return ctx.run(upload, file, f"video-{name}")


flows = {"ingest": ingest}
