"""The Spark session that the kit starts."""

import os
import subprocess
import sys


def test_without_java_it_ends_with_a_sentence(tmp_path):
    program = "from tidegate.conformance.lab.spark import shared_session; shared_session()"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stderr.splitlines()[-1] == (
        "tidegate.errors.InstallationError: Spark's Java does not start: Java 17 or newer is needed "
        f"(JAVA_HOME is {tmp_path})"
    )
