"""An S3 endpoint that keeps its promises only as far as a test wants."""

from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.objects.own_client import OwnClient


class Endpoint(OwnClient):
    """Treats conditions as a test wants, and loses answers to writes."""

    def __init__(self, client, conditions="kept"):
        super().__init__(client)
        self._conditions, self.answers_lost = conditions, 0

    def put_object(self, **request):
        conditions = {"IfMatch", "IfNoneMatch"} & request.keys()
        if conditions and self._conditions == "refused":
            raise ClientError(
                {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}, "PutObject"
            )
        if self._conditions == "ignored":
            request = {key: value for key, value in request.items() if key not in conditions}
        answer = self._client.put_object(**request)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError(endpoint_url="lost")
        return answer
