"""Listings page by page, from endpoints that answer as S3 never does."""

import pytest
from botocore.exceptions import PartialCredentialsError

from tests.support.objects.own_client import OwnClient
from tidegate.errors import ConnectorError
from tidegate.readers.s3.listing import list_pages


class CutWithoutToken(OwnClient):
    """Answers with a page that is not the last, and does not say how to continue."""

    def list_objects_v2(self, **request):
        return {"Contents": [], "IsTruncated": True, "Request": request}


def test_a_listing_that_is_cut_without_a_token_is_not_taken_for_whole():
    pages = list_pages(CutWithoutToken(None), "objects", "in/", Delimiter="/")
    assert next(pages)["Request"] == {"Bucket": "objects", "Prefix": "in/", "Delimiter": "/"}
    with pytest.raises(ConnectorError, match=r"^the endpoint cut the listing of s3://objects/in/ and gave no token"):
        next(pages)


class Unusable(OwnClient):
    """Has credentials that make no client."""

    def client(self):
        raise PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY")


def test_credentials_that_make_no_client_end_a_listing_in_one_sentence():
    with pytest.raises(ConnectorError, match=r"^cannot list s3://objects/in/: Partial credentials found in env"):
        next(list_pages(Unusable(None), "objects", "in/"))
