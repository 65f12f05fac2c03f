"""A missing file of certificates or credentials, for all code on the driver that asks an endpoint."""

import pytest

from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.discovery.listing import ListingRules, ObjectListing
from tidegate.enumerators.s3.notifications.queue import NotificationQueue
from tidegate.errors import ConnectorError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore


@pytest.mark.parametrize(
    ("ask", "target"),
    [
        (lambda config: next(ObjectListing(config, "data", ListingRules()).pages()), "list s3://data/"),
        (lambda config: ObjectStore(config, "data").find("key"), "look at s3://data/key"),
        (
            lambda config: NotificationQueue(config, "https://127.0.0.1:9/1/q").state(),
            "look at the queue https://127.0.0.1:9/1/q",
        ),
        (lambda config: open_folder("s3://data/state", config).read("name"), "read the state location s3://data/state"),
    ],
    ids=["listing", "object", "queue", "ledger"],
)
def test_it_is_named_in_a_sentence(ask, target, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "no-token"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    config = S3ConnectionConfig("https://127.0.0.1:9", "us-east-1", deadline_s=0.3)
    with pytest.raises(ConnectorError, match=rf"^cannot {target}.*no-token"):
        ask(config)
