"""Writes servers/jars.sha256: the digests of all that is fetched from Maven Central, which is fetched anew (1 GB).

    python -m tests.servers.digests

Read the difference before you commit it: a digest changes only with a version.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from benchmarks.event_time import flink as flink_job
from benchmarks.measuring import peers
from tests.servers.test_maven import SMALL
from tests.support import flink
from tests.support.servers import registry_server
from tidegate.servers import kafka, maven, s3


def main():
    """Fetch all without a check, and write what came."""
    digests = {}

    def note(files, *_):
        for file in files:
            digests[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()

    maven._verify = note
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for server in (kafka, s3):
            maven.find_jars(server.COORDINATE, "KAFKA_LIBS")
        maven.find_unpacked(registry_server.COORDINATE, "REGISTRY_LIBS", registry_server.JAR)
        maven.find_jars(SMALL, "SLF4J_LIBS")
        maven.find_jars(f"{SMALL}:sources", "SLF4J_LIBS", transitive=False)
        flink.class_path()
        flink_job.class_path()
        peers.built_in_jars()
        peers.s3a_jars()
    maven.DIGESTS.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))
    print(f"{len(digests)} digests in {Path(maven.DIGESTS).relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
