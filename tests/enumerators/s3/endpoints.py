"""An S3 endpoint that keeps its promises only as far as a test wants."""

from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.buckets import OwnClient


class Endpoint(OwnClient):
    """Keeps, ignores or refuses conditions, loses answers to writes, and lets others act before it deletes."""

    def __init__(self, client, conditions="kept"):
        super().__init__(client)
        self.conditions, self.answers_lost, self.deletes = conditions, 0, 0
        self.before_delete = lambda: None

    def put_object(self, **request):
        return self._write("put_object", request)

    def delete_object(self, **request):
        self.before_delete()
        self.deletes += 1
        return self._write("delete_object", request)

    def _write(self, operation, request):
        conditions = {"IfMatch", "IfNoneMatch"} & request.keys()
        if conditions and self.conditions == "refused":
            answer = {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}
            raise ClientError(answer, operation)
        if self.conditions == "ignored":
            request = {key: value for key, value in request.items() if key not in conditions}
        answer = getattr(self._client, operation)(**request)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError(endpoint_url="lost")
        return answer
