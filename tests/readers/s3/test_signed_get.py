"""GETs that are signed here, against boto3's own signer."""

import re
from datetime import datetime, timezone
from unittest.mock import patch
from urllib.parse import quote

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.s3.signed_get import Scope, canonical_query, signed_headers

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    key=texts,
    query=st.dictionaries(texts.filter(bool), texts, max_size=3),
    token=st.none() | st.just("a/token+="),
    region=st.sampled_from(["us-east-1", "eu-west-3"]),
    pays=st.booleans(),
)
def test_the_signature_is_the_one_of_boto3(key, query, token, region, pays):
    path = f"/data/{quote(key, safe='/-._~')}"
    text = canonical_query(query)
    covered = {"host": "localhost:9000", **({"x-amz-request-payer": "requester"} if pays else {})}
    now = datetime(2026, 11, 28, 23, 59, 59, tzinfo=timezone.utc)
    ours = signed_headers(Scope("ACCESS", "secret", token, region), now, path, text, covered)
    headers = {name: value for name, value in covered.items() if name != "host"}
    request = AWSRequest("GET", f"http://localhost:9000{path}{'?' if text else ''}{text}", headers)
    request.headers["X-Amz-Content-SHA256"] = ours["x-amz-content-sha256"]
    with patch.object(auth, "get_current_datetime", lambda *_, **__: now.replace(tzinfo=None)):
        auth.S3SigV4Auth(Credentials("ACCESS", "secret", token), "s3", region).add_auth(request)
    signature = re.compile("Signature=([0-9a-f]+)$")
    assert signature.search(ours["authorization"])[1] == signature.search(request.headers["Authorization"])[1]
    assert ours["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential=ACCESS/20261128/{region}/s3/aws4_request, ")
