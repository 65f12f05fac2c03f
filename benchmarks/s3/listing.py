"""Measures the discovery of objects: a million in a simulated listing, 200,000 at a real endpoint.

The first round finds everything, the second one ten new objects.  Each part runs in its own process, so
that the peak of memory is its own.

    python -m benchmarks.s3.listing
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tidegate.enumerators.s3.discovery.listing import ListingRules, ObjectListing
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.readers.objects.values import CHUNK_SCHEMA, Chunk, S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.servers import S3Server

SIMULATED = 1_000_000
LAID_DOWN = 200_000
IN_A_FOLDER = 1_000
IN_A_PAGE = 1_000
NEW_LATER = 10
FIRST_MS = 1_767_225_600_000
DAY_MS = 86_400_000
QUESTIONS = 10_000


def simulated(objects: int, new: int = 0) -> Iterator[list[S3Object]]:
    """Yield the pages of a listing in the order of the keys, with some objects more among them."""
    dice = random.Random(7)
    later = random.Random(8)
    wanted = set(later.sample(range(objects), new))
    listed = []
    for number in range(objects):
        folder = f"warehouse/events/dt=2026-01-{1 + number * 28 // objects:02}"
        modified_ms = FIRST_MS + dice.randrange(2 * DAY_MS)
        listed.append(
            S3Object(
                f"{folder}/part-{number:08}-{number:032x}.json", 10_240, f"{dice.getrandbits(128):032x}", modified_ms
            )
        )
        if number in wanted:
            listed.append(S3Object(f"{folder}/part-{number:08}-new.json", 10_240, "0" * 32, FIRST_MS + 3 * DAY_MS))
        if len(listed) >= IN_A_PAGE:
            yield listed
            listed = []
    yield listed


def discovered(pages: Iterable[list[S3Object]], seen: SeenObjects) -> ChunkSorter:
    """Return the new objects, as a chunk each, the way a round of discovery does."""
    sorter = ChunkSorter()
    new = (obj for page in pages for obj in seen.sift(page)[0])
    while some := list(islice(new, 10_000)):
        seen.add(some)
        chunks = [Chunk(*obj, 0, obj.size, 40, obj.modified_ms, obj.modified_ms + 60_000) for obj in some]
        columns = [
            pa.array(values, field.type) for values, field in zip(zip(*chunks, strict=True), CHUNK_SCHEMA, strict=True)
        ]
        sorter.add(pa.record_batch(columns, CHUNK_SCHEMA))
    seen.end_round(FIRST_MS + 4 * DAY_MS)
    return sorter


def peak_mib() -> float:
    """Return the most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def told(what: str, begun: float, more: str = "") -> None:
    """Print how long something took since ``begun``, and the most memory so far."""
    print(f"  {what:32}{time.perf_counter() - begun:8.3f} s   peak {peak_mib():4.0f} MiB{more}", flush=True)


def state_costs() -> None:
    """Print the cost of remembering a million objects, and of making their manifest."""
    print(f"{SIMULATED:,} simulated objects; {peak_mib():.0f} MiB before", flush=True)
    begun = time.perf_counter()
    for _ in simulated(SIMULATED):
        pass
    told("making up the listing, no more", begun)
    begun = time.perf_counter()
    seen = SeenObjects(7 * DAY_MS)
    chunks = discovered(simulated(SIMULATED), seen)
    told("first round", begun)
    begun = time.perf_counter()
    manifest = Manifest.build(1, chunks)
    told("its manifest built", begun, f"; {len(manifest.data) / 2**20:.1f} MiB of data")
    del chunks
    begun = time.perf_counter()
    stored = {run.name: run.to_bytes() for run in seen.runs}
    told("the seen objects stored", begun, f"; {sum(map(len, stored.values())) / 2**20:.1f} MiB, {len(stored)} files")
    begun = time.perf_counter()
    seen = SeenObjects.restored(seen.snapshot(), stored.__getitem__, 7 * DAY_MS)
    told("the seen objects restored", begun)
    begun = time.perf_counter()
    manifest = Manifest.parse(manifest.id, manifest.data)
    asked(manifest, 1)
    told("the manifest loaded, arrays made", begun)
    begun = time.perf_counter()
    asked(manifest, QUESTIONS)
    each_us = (time.perf_counter() - begun) / QUESTIONS * 1e6
    told(f"{QUESTIONS:,} times asked", begun, f"; {each_us:.1f} us for lookup, head, cost and latest")
    begun = time.perf_counter()
    discovery = discovered(simulated(SIMULATED, NEW_LATER), seen)
    new = {run.name: run.to_bytes() for run in seen.runs if run.name not in stored}
    told("later round", begun, f"; found {len(discovery)}, {sum(map(len, new.values())):,} bytes to store")


def asked(manifest: Manifest, times: int) -> None:
    """Ask a manifest the questions of a plan."""
    dice = random.Random(9)
    for _ in range(times):
        head = manifest.lookup(FIRST_MS + dice.randrange(2 * DAY_MS))
        position = len(manifest) if head is None else head.position
        manifest.head(position)
        manifest.cost(position // 2, position)
        manifest.latest(position)


def endpoint_costs() -> None:
    """Print the cost of listing objects at a real endpoint."""
    with tempfile.TemporaryDirectory() as folder, S3Server(folder=folder) as server:
        laid = Path(folder) / "objects"
        lay_down(laid, LAID_DOWN)
        config = S3ConnectionConfig(server.endpoint, server.region, server.access_key, server.secret_key)
        listing = ObjectListing(config, "objects", ListingRules("events/"))
        print(f"{LAID_DOWN:,} objects at S3Proxy, {IN_A_FOLDER:,} a folder")
        seen = SeenObjects(7 * DAY_MS)
        round_costs("first round", listing, seen)
        for number in range(NEW_LATER):
            path = laid / f"events/dt={number:03}/new.json"
            path.write_bytes(b"{}")
            os.utime(path, (FIRST_MS // 1000 + 3 * 86_400,) * 2)
        round_costs("second round", listing, seen)


def round_costs(name: str, listing: ObjectListing, seen: SeenObjects) -> None:
    """Print the cost of one round."""
    begun, cpu = time.perf_counter(), time.process_time()
    manifest = Manifest.build(1, discovered(listing.pages(), seen))
    told(name, begun, f"; found {len(manifest):,}, {time.process_time() - cpu:.2f} s of our own CPU")


def lay_down(bucket: Path, objects: int) -> None:
    """Make files of objects."""
    dice = random.Random(7)
    for first in range(0, objects, IN_A_FOLDER):
        folder = bucket / f"events/dt={first // IN_A_FOLDER:03}"
        folder.mkdir(parents=True)
        for number in range(first, first + IN_A_FOLDER):
            path = folder / f"part-{number:08}.json"
            path.write_bytes(b"{}")
            os.utime(path, (FIRST_MS // 1000 + dice.randrange(2 * 86_400),) * 2)


def main() -> None:
    """Run each part in a new process."""
    processes = multiprocessing.get_context("spawn")
    for part in (state_costs, endpoint_costs):
        process = processes.Process(target=part)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
