"""Queues of SQS, as moto's server plays them in a thread of this process, and what S3 would say in them."""

import functools
import itertools
import json
import logging
import threading
from unittest import mock
from urllib.parse import quote_plus

import boto3

REGION = "us-east-1"
_ACCOUNT = "123456789012"  # the only one of moto's server
_NAMES = (f"queue-{number}" for number in itertools.count())


class QueueServer:
    """SQS on a free port."""

    def __enter__(self):
        from moto.server import ThreadedMotoServer  # most runs of tests need no queue, and moto loads for long
        from moto.sqs.models import Queue as MotoQueue

        # Deleting a message makes a new list of all others, which would undo what another thread did meanwhile.
        lock = threading.Lock()
        methods = {name: _locked(getattr(MotoQueue, name), lock) for name in ("add_message", "delete_message")}
        self._locks = mock.patch.multiple(MotoQueue, **methods)
        self._locks.start()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it prints each request
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.client = boto3.client(
            "sqs",
            endpoint_url=f"http://{host}:{port}",
            region_name=REGION,
            aws_access_key_id="any",
            aws_secret_access_key="any",  # noqa: S106 - moto takes all
        )
        return self

    def __exit__(self, *_):
        self.client.close()
        self._server.stop()
        self._locks.stop()


def _locked(method, lock):
    @functools.wraps(method)
    def locked(*arguments):
        with lock:
            return method(*arguments)

    return locked


class Queue:
    """A new queue of a server."""

    def __init__(self, server, **attributes):
        self.client, self.name = server.client, next(_NAMES)
        self.url = self.client.create_queue(QueueName=self.name, Attributes=attributes)["QueueUrl"]

    def send(self, *bodies):
        """Send messages, and return the id of the last one."""
        return [self.client.send_message(QueueUrl=self.url, MessageBody=body) for body in bodies][-1]["MessageId"]

    def __len__(self):
        """Return how many messages there are, hidden or not."""
        return sum(self.counts())

    def counts(self):
        """Return how many messages are visible, and how many are hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return tuple(int(found[name]) for name in names)

    def pass_time(self, seconds):
        """Let messages that were hidden for less come again."""
        for message in self._messages():
            message.visible_at -= seconds * 1000

    def hidden_s(self):
        """Return until when each message is hidden, in seconds since the epoch, by its id."""
        return {message.id: message.visible_at / 1000 for message in self._messages()}

    def _messages(self):
        from moto.sqs.models import sqs_backends

        return sqs_backends[_ACCOUNT][REGION].queues[self.name]._messages


def s3_body(*created, event="ObjectCreated:Put"):
    """Return what S3 says of objects, given as (bucket, key)."""
    return json.dumps({"Records": [s3_record(bucket, key, event) for bucket, key in created]})


def s3_record(bucket, key, event="ObjectCreated:Put"):
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": REGION,
        "eventTime": "2026-11-21T12:00:00.000Z",
        "eventName": event,
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "all",
            "bucket": {"name": bucket, "ownerIdentity": {"principalId": "me"}, "arn": f"arn:aws:s3:::{bucket}"},
            # S3 leaves slashes as they are.
            "object": {"key": quote_plus(key, safe="/"), "size": 1, "eTag": "e", "sequencer": "0A1B2C3D4E5F678901"},
        },
    }


def sns_body(body):
    """Return a body as a topic of SNS puts it into its envelope."""
    return json.dumps({"Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:::t", "Message": body})


def event_bridge_body(bucket, key, kind="Object Created"):
    return json.dumps(
        {
            "version": "0",
            "id": "17793124-05d4-b198-2fde-7ededc63b103",
            "detail-type": kind,
            "source": "aws.s3",
            "account": _ACCOUNT,
            "time": "2026-11-21T12:00:00Z",
            "region": REGION,
            "resources": [f"arn:aws:s3:::{bucket}"],
            "detail": {
                "version": "0",
                "bucket": {"name": bucket},
                "object": {"key": key, "size": 1, "etag": "e", "sequencer": "00617F08299329D189"},
                "reason": "PutObject",
            },
        }
    )


TEST_EVENT = json.dumps(
    {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-11-21T12:00:00.000Z", "Bucket": "b"}
)
"""What S3 sends when a bucket is told to notify a queue."""
