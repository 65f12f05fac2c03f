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
from tests.servers.test_servers import SMALL
from tests.support import flink
from tests.support.servers import registry_server
from tidegate.servers import java, kafka, s3


def main():
    """Fetch all without a check, and write what came."""
    digests = {}

    def note(files, *_):
        for file in files:
            digests[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()

    java._verify = note
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for server in (kafka, s3):
            java.find_jars(server.COORDINATE, "KAFKA_LIBS")
        java.find_unpacked(registry_server.COORDINATE, "REGISTRY_LIBS", registry_server.JAR)
        java.find_jars(SMALL, "SLF4J_LIBS")
        java.find_jars(f"{SMALL}:sources", "SLF4J_LIBS", transitive=False)
        flink.class_path()
        flink_job.class_path()
        peers.avro_jars()
        peers.built_in_jars()
        peers.s3a_jars()
    java.DIGESTS.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))
    print(f"{len(digests)} digests in {Path(java.DIGESTS).relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
