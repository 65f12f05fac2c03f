import json

import pytest

from tests.jobs.ledger.queries import Query
from tests.support.streams import HOUR, NOON


@pytest.fixture
def query(bucket, tmp_path):
    """A query over four objects of one row, one for each hour from noon on."""
    for hour in range(4):
        bucket.put_rows(f"{hour}.parquet", [(hour, NOON + hour * HOUR)])
    return Query(bucket, tmp_path)


@pytest.fixture
def ledger(tidegate, bucket, query):
    """Run the command; return the JSON that it printed, or the sentence with which it ended."""

    def run(verb, *arguments, checkpoint=True, path=True, **options):
        given = {**bucket.options, "eventTime": "column:at", **({"path": bucket.path} if path else {}), **options}
        command = ["ledger", verb, query.state_folder, *arguments]
        command += [part for name, value in given.items() for part in ("--option", f"{name}={value}")]
        code, output, _ = tidegate(*command, *(("--checkpoint", query.checkpoint) if checkpoint else ()))
        return json.loads(output) if code == 0 else code

    return run


@pytest.fixture
def states(ledger):
    """Return the states of the findings about an object, and their reasons."""

    def ask(key, **how):
        (answer,) = ledger("why", f"in/{key}", **how)
        findings = answer["findings"]
        return [finding["state"] for finding in findings], [f["reason"] for f in findings if "reason" in f]

    return ask
