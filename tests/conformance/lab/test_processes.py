import os
import subprocess
import sys

import pytest

from tidegate.conformance.lab.processes import children

_NAMES_ITSELF = "open('/proc/self/comm', 'wb').write(b'caf\\xe9) R 1'); print('named', flush=True); input()"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows children")
def test_a_process_may_have_any_name():
    with subprocess.Popen(
        [sys.executable, "-c", _NAMES_ITSELF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"named\n"
        by_parent = children()
        process.communicate(b"\n")
    assert process.pid in by_parent[os.getpid()]
