"""A real S3 endpoint over a folder, for development, demonstrations and tests."""

from __future__ import annotations

import secrets
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tidegate.errors import ServerError
from tidegate.servers.java import find_jars
from tidegate.servers.process import Sandbox
from tidegate.servers.server import HOST, Server, free_ports

COORDINATE = "org.gaul:s3proxy:4.1.0"
PROBE_SECONDS = 2
JVM_OPTIONS = ["-Xmx1g", "-XX:TieredStopAtLevel=1"]  # the second compiler slows the start by more than it saves later
MAIN = "org.gaul.s3proxy.Main"

# Java takes the encoding of file names only from the locale.  If the locale is C, keys with letters beyond ASCII are
# lost.
UNICODE = ["env", "LC_ALL=C.UTF-8"]

# S3Proxy logs by Logback, whose default level is DEBUG.
LOGGING = """<configuration>
  <appender name="log" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""


class S3Server(Server):
    """S3Proxy over a folder, on a port of 127.0.0.1; use it as a context manager.

    folder: keeps the buckets after :meth:`stop`, for a later server.  None: the buckets are in a temporary folder,
        which is removed with the server.

    Every server has a new access key.  A bucket is a folder in :attr:`folder`, and the object ``a/b.json`` is the file
    ``a/b.json`` in it.  A PUT takes some 12 ms, so large fixtures are better written as files.  Write a file elsewhere
    on the same disk and rename it, or a listing may show half of it.  ``LastModified`` is the file's modification time,
    so ``os.utime`` sets it for any object.

    S3Proxy differs from S3:

    - An object that was written as a file has no ``ETag``, and ``If-Match`` passes.  On Linux,
      ``os.setxattr(path, "user.user.content-md5", md5)`` with the 16 bytes gives it an ETag.
    - ``LastModified`` of a multipart upload is the time of its completion, not of its start.
    - Every page of a listing reads the attributes of all files below the last ``/`` of the prefix, also with
      ``StartAfter``, so the time grows with the square of their number.
    - Keys are listed in the order of UTF-16, which differs from S3's for characters beyond U+FFFF.  ``/`` is the only
      delimiter; with it, empty folders are prefixes.
    - A running upload is listed as the key with a hyphen and a UUID; a kill may leave it there.
    - A key is a path.  There is no ``a`` besides ``a/b``, and no ``/`` at the beginning; ``a//b`` and ``a/./b`` are
      ``a/b``.  A part of a key has at most 218 bytes in UTF-8 (255 if it is written as a file).  A key with ``/`` at
      its end has no content.
    - If the disk ignores case or Unicode normalisation in names, as on a Mac, such keys are the same; on Linux they
      are not.
    - A PUT has at most 128 MiB; more needs a multipart upload.  A GET of several ranges gives the whole object.
    - It has no versions, tags, notifications, policies or encryption.

    The jars come from Maven Central on first use, or from the folder that ``S3PROXY_LIBS`` names.  No process, port or
    temporary folder is left behind, however the calling process ends.
    """

    region = "us-east-1"  # S3Proxy takes any

    def __init__(self, *, port: int | None = None, folder: str | Path | None = None) -> None:
        super().__init__("s3", free_ports(1) if port is None else [port], folder)
        self.access_key, self.secret_key = secrets.token_hex(10), secrets.token_hex(20)

    @property
    def endpoint(self) -> str:
        """The address, ``http://127.0.0.1:port``; it stays the same when the server restarts."""
        return f"http://{HOST}:{self._ports[1]}"

    @property
    def folder(self) -> Path:
        """The folder with a folder for each bucket.

        Raises ServerError if the folder is temporary and the server is not started.
        """
        if self._folder is not None:
            return self._folder
        if self._sandbox is None:
            raise ServerError("the S3 server has no folder: it is not started, and none was given")
        return self._sandbox.folder / "buckets"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which boto3 and the AWS command line find the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
        }

    def client(self, **config: Any) -> Any:
        """Return a new boto3 client with path-style addresses and further ``Config``; the caller closes it."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            # A proxy that the environment names could not reach this machine's 127.0.0.1.
            config=Config(s3={"addressing_style": "path"}, proxies={}).merge(Config(**config)),
        )

    def create_bucket(self, name: str) -> Path:
        """Create a bucket, and return its folder.

        Raises ``botocore.exceptions.ClientError`` if the name exists already, or is not valid.
        """
        with closing(self.client()) as client:
            client.create_bucket(Bucket=name)
        return self.folder / name

    def _start(self, sandbox: Sandbox, nodes: list[int]) -> None:
        libraries = find_jars(COORDINATE, override="S3PROXY_LIBS")
        self.folder.mkdir(parents=True, exist_ok=True)
        logging = sandbox.folder / "logback.xml"
        logging.write_text(LOGGING)
        settings = sandbox.folder / "s3proxy.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        # S3Proxy reads its properties as Latin-1, so the folder is on the command line.  Everyone can see a command
        # line, so the access key is among the properties.
        options = [f"-Djclouds.filesystem.basedir={self.folder}", f"-Dlogback.configurationFile={logging}"]
        java = self._java(sandbox, *JVM_OPTIONS, *options, "-classpath", f"{libraries}/*")
        for node in nodes:
            command = [*UNICODE, *java, MAIN, "--properties", str(settings)]
            self._running[node] = sandbox.spawn(command, sandbox.folder / "s3proxy.log")
            self._await_port(node)
            self._await(self._answers, node)

    def _settings(self) -> dict[str, str]:
        return {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": self.access_key,
            "s3proxy.credential": self.secret_key,
            "jclouds.provider": "filesystem-nio2",
        }

    def _answers(self) -> bool:
        """Return whether this server accepts connections; another program at the port would refuse the access key."""
        from botocore.exceptions import BotoCoreError, ClientError

        quick = self.client(read_timeout=PROBE_SECONDS, retries={"total_max_attempts": 1})
        with closing(quick) as client, suppress(BotoCoreError, ClientError):
            client.list_buckets()
            return True
        return False
