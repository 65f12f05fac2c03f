"""A configuration of S3 whose client a test changes."""


class OwnClient:
    """A configuration that gives itself as the client: subclasses override requests, the real client answers others."""

    deadline_s = 10

    def __init__(self, client):
        self._client = client

    def client(self):
        return self

    def __getattr__(self, name):
        return getattr(self._client, name)
