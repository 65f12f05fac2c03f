"""An S3 endpoint that keeps its promises only as far as a test wants."""

from botocore.exceptions import ClientError, ReadTimeoutError


class Endpoint:
    """A configuration whose client treats conditions as it is told to, and loses answers to writes."""

    deadline_s = 10

    def __init__(self, client, conditions="kept"):
        self._client, self._conditions, self.answers_lost, self.is_down = client, conditions, 0, False

    def patience_s(self):
        return self.deadline_s

    def client(self):
        return self

    def __getattr__(self, name):
        return getattr(self._client, name)

    def put_object(self, **request):
        conditions = {"IfMatch", "IfNoneMatch"} & request.keys()
        if conditions and self._conditions == "refused":
            raise ClientError(
                {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}, "PutObject"
            )
        if self._conditions == "ignored":
            request = {key: value for key, value in request.items() if key not in conditions}
        if self.is_down:
            raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "PutObject")
        answer = self._client.put_object(**request)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError(endpoint_url="lost")
        return answer
