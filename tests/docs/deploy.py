"""Types what the page on deploying says, with a cluster and a Kafka of its own, and looks at what is written.

python -m tests.docs.deploy [FOLDER]

FOLDER: where the environment is made and packed; one that is there already is used again.  Docker's command is run
where Docker is.  ``tests/sources/test_environments.py`` tests what the page warns of: processes of Spark without
tidegate, with another version, or with it in an archive.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pyarrow import dataset

from tests.support.command import running
from tests.support.pages import ROOT, blocks
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720


def shell(command, folder):
    """Run a line in the folder; return its exit code and all that it prints."""
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=500,
    )
    return done.returncode, done.stdout


def must(command, folder):
    print("$", command, flush=True)
    code, output = shell(command, folder)
    if code:
        sys.exit(f"exit code {code}\n{output}")


def commands():
    """Return the blocks of the page: a cluster, data, an environment, what is submitted, its result, and an image."""
    cluster, data, pack, submit, result, image = (block for block in blocks("docs/deploy.md") if not block.language)
    return cluster, data, pack, submit, result, image


def main():
    cluster, data, pack, submit, result, image = commands()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(*sys.argv[1:2] or [temporary]).resolve()
        kafka_port, spark_port = free_ports(2)
        own = {
            "scripts/wheel dist": f"scripts/wheel {folder}/dist",  # the script works in the checkout
            "scripts/": f"{ROOT}/scripts/",
            ".venv/bin/": f"{ROOT}/.venv/bin/",
            "examples/": f"{ROOT}/examples/",
            "/tmp/orders": f"{temporary}/orders",  # noqa: S108
            "/tmp/spark-work": f"{temporary}/work",  # noqa: S108
            "9092": str(kafka_port),
            "7077": str(spark_port),
        }
        serve, produce = data.with_own(own).text.splitlines()
        master, worker = (
            ["/bin/bash", "-c", f"{line} >/dev/null 2>&1"] for line in cluster.with_own(own).text.splitlines()
        )
        with (
            running(master, cwd=ROOT),
            running(worker, cwd=ROOT),
            running(shlex.split(serve)) as kafka,
        ):
            assert kafka.stdout.readline()
            must(produce, folder)
            if not (folder / "environment.tar.gz").exists():
                for line in pack.with_own(own).text.splitlines():
                    must(line, folder)
            export, line = submit.with_own(own).text.splitlines()
            must(f"{export}; {line}", folder)
            must(result.with_own(own).text, folder)
            counts = dataset.dataset(f"{temporary}/orders/counts", format="parquet").to_table()["count"].to_pylist()
            print(f"{sum(counts):,} of {ORDERS:,} orders in {len(counts)} closed windows", flush=True)
            assert ORDERS - 4_500 < sum(counts) <= ORDERS  # the delay keeps those of the last hour in state
        if shutil.which("docker") and shell("docker info", folder)[0] == 0:
            for line in image.text.splitlines():
                must(line, ROOT)
        else:
            print("Docker does not run here: no image was built")


if __name__ == "__main__":
    main()
