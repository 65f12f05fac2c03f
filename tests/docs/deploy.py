"""Types what the page on deploying says, with a cluster and a Kafka of its own, and looks at what is written.

python -m tests.docs.deploy [FOLDER]

FOLDER: where the environment is made and packed; one that is there already is used again.  Then submits with what the
page warns of: no environment on the driver, executors without tidegate, and tidegate in an archive.  Docker's command
is run where Docker is.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pyarrow import dataset

from tests.support.command import running
from tests.support.pages import ROOT, blocks
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720


def shell(command, folder, **environment):
    """Run a line in the folder; return its exit code and all that it prints."""
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=500,
    )
    return done.returncode, done.stdout


def must(command, folder, **environment):
    print("$", command, flush=True)
    code, output = shell(command, folder, **environment)
    if code:
        sys.exit(f"exit code {code}\n{output}")


def refused(what, command, sentence, folder, **environment):
    """Submit what cannot work, and look for the sentence."""
    code, output = shell(command, folder, **environment)
    found = re.search(sentence, output)
    print(f"{what}: exit code {code}, {len(output.splitlines())} lines:", found and found[0], flush=True)
    if not code or not found:
        sys.exit(output[-6000:])


def archive_of_tidegate(path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in (ROOT / "src" / "tidegate").rglob("*.py"):
            archive.write(file, file.relative_to(ROOT / "src"))


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
            "9092": str(kafka_port),
            "7077": str(spark_port),
        }
        serve, produce = data.with_own(own).text.splitlines()
        with (
            running(shlex.split(cluster.with_own(own).text)) as spark,
            running(shlex.split(serve)) as kafka,
        ):
            assert kafka.stdout.readline()
            assert spark.stdout.readline() == f"spark://127.0.0.1:{spark_port}\n", spark.stderr.read()
            must(produce, folder)
            if not (folder / "environment.tar.gz").exists():
                for line in pack.with_own(own).text.splitlines():
                    must(line, folder)
            export, line = submit.with_own(own).text.splitlines()
            must(f"{export}; {line}", folder)
            must(result.with_own(own).text, folder)
            counts = dataset.dataset(f"{temporary}/orders/counts", format="parquet").to_table()["count"].to_pylist()
            print(f"{sum(counts):,} of {ORDERS:,} orders in {len(counts)} closed windows", flush=True)
            assert ORDERS - 500 < sum(counts) <= ORDERS

            line = line.replace(f"{temporary}/orders", f"{temporary}/other")
            elsewhere = Path(temporary, "elsewhere")
            elsewhere.mkdir()
            there = {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": f"{ROOT}/.venv/bin/python"}
            refused(
                "no environment on the driver",
                line.replace("environment/bin/spark-submit", f"{ROOT}/.venv/bin/spark-submit").replace(
                    "--archives ", f"--archives {folder}/"
                ),
                "InstallationError: .*",
                elsewhere,
                **there,
            )
            if not Path(folder, "bare.tar.gz").exists():
                must("python3 -m venv bare && bare/bin/pip install -q pyarrow 'pandas<3'", folder)
                must("tar -czf bare.tar.gz -C bare .", folder)
            refused(
                "executors without tidegate",
                line.replace("environment.tar.gz", "bare.tar.gz"),
                "which Spark runs for this query, cannot import tidegate: .*",
                folder,
                **there | {"PYSPARK_DRIVER_PYTHON": "environment/bin/python"},
            )
            archive_of_tidegate(folder / "tidegate.zip")
            refused(
                "tidegate in an archive",
                line.replace("--archives", "--py-files tidegate.zip --archives"),
                "tidegate cannot run from an archive.*",
                folder,
                PYSPARK_PYTHON="./environment/bin/python",
            )
        if shutil.which("docker") and shell("docker info", folder)[0] == 0:
            for line in image.text.splitlines():
                must(line, ROOT)
        else:
            print("Docker does not run here: no image was built")


if __name__ == "__main__":
    main()
