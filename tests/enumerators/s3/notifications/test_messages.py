"""The bodies of messages, in all their shapes, and malformed ones."""

import json
import re
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.queues import TEST_EVENT, event_bridge_body, s3_body, s3_record, sns_body
from tidegate.enumerators.s3.notifications.messages import created_objects

HIDDEN = "do-not-show-me"

# A key is at most 1,024 bytes of UTF-8; XML, and so S3's listing, has no surrogates.
keys = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" +%/&=?#é€😀"), min_size=1, max_size=200)
NAMES = (
    "Records",
    "Type",
    "Message",
    "source",
    "detail-type",
    "detail",
    "Event",
    "eventName",
    "s3",
    "bucket",
    "object",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=3),
            inner | st.sampled_from(["Notification", "aws.s3", "Object Created", "ObjectCreated:Put", "s3:TestEvent"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(keys, min_size=1, max_size=3))
@example(["in/a b+c%20d%é/x=1&y#?.json"])
def test_keys_are_named_as_they_are_whatever_their_characters_and_the_way_of_the_message(names):
    direct = s3_body(*(("b", key) for key in names))
    for body in (direct, sns_body(direct)):
        assert created_objects(body) == [("b", key) for key in names]
    for body in (event_bridge_body("b", names[0]), sns_body(event_bridge_body("b", names[0]))):
        assert created_objects(body) == [("b", names[0])]


@pytest.mark.parametrize(
    "event", ["ObjectCreated:Put", "ObjectCreated:CompleteMultipartUpload", "s3:ObjectCreated:Copy"]
)
def test_objects_are_created_in_many_ways(event):
    assert created_objects(s3_body(("b", "k"), event=event)) == [("b", "k")]


@pytest.mark.parametrize(
    "body",
    [
        s3_body(("b", "k"), event="ObjectRemoved:Delete"),
        s3_body(("b", "k"), event="ObjectTagging:Put"),
        event_bridge_body("b", "k", "Object Deleted"),
        event_bridge_body("b", "k", "Object Storage Class Changed"),
        TEST_EVENT,
        sns_body(TEST_EVENT),
        s3_body(),
    ],
)
def test_other_events_and_tests_name_nothing(body):
    assert created_objects(body) == []


def test_what_was_created_is_taken_out_of_a_message_of_several_events():
    records = [s3_record("b", "1"), s3_record("b", "2", "ObjectRemoved:Delete"), s3_record("c", "3")]
    assert created_objects(json.dumps({"Records": records})) == [("b", "1"), ("c", "3")]


def without(body, *path):
    """Return a body without the value at a path."""
    content = json.loads(body)
    place = content
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return json.dumps(content)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is not JSON"),
        (HIDDEN, "is not JSON"),
        ("{" * 100_000, "is not JSON"),
        ('"\\ud800"', "is not JSON"),
        ("[]", "is not a notification of S3"),
        (json.dumps({"order": HIDDEN}), "is not a notification of S3"),
        (json.dumps({"source": "aws.ec2", "detail-type": HIDDEN}), "is not a notification of S3"),
        (json.dumps({"Type": "SubscriptionConfirmation", "Token": HIDDEN}), "is not a notification of S3"),
        (sns_body(HIDDEN), "is not JSON"),
        (json.dumps({"Type": "Notification"}), "lacks Message"),
        (json.dumps({"Records": HIDDEN}), "holds Records that are no list"),
        (json.dumps({"Records": [HIDDEN]}), "lacks eventName"),
        (without(s3_body(("b", HIDDEN)), "Records", 0, "s3", "bucket", "name"), "lacks s3.bucket.name"),
        (s3_body(("b", "")), "lacks s3.object.key"),
        (s3_body(("b", "x" * 1025)), "holds a key of more than 1024 bytes"),
        (s3_body(("b", "k")).replace('"k"', '"%FF"'), "holds a key that is not UTF-8"),
        (without(event_bridge_body("b", HIDDEN), "detail", "object", "key"), "lacks detail.object.key"),
        (event_bridge_body("b", HIDDEN, "AWS API Call via CloudTrail"), "holds no event of an object"),
    ],
)
def test_what_is_malformed_says_why_and_shows_nothing(body, reason):
    assert HIDDEN not in reason
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        created_objects(body)


@given(st.text() | values.map(json.dumps) | values.map(lambda value: sns_body(json.dumps(value))))
def test_whatever_a_body_is_it_names_objects_or_is_malformed(body):
    named, reason = understood(body)
    assert all(created.bucket and created.key for created in named)
    assert not reason or reason.startswith(("is ", "lacks ", "holds "))


def understood(body):
    """Return the objects that a body names, and the reason if it is malformed."""
    try:
        return created_objects(body), ""
    except ValueError as problem:
        return [], str(problem)


@given(keys)
def test_a_key_that_other_software_encodes_more_strictly_is_the_same(key):
    body = s3_body(("b", key)).replace(json.dumps(quote_plus(key, safe="/")), json.dumps(quote_plus(key, safe="")))
    assert created_objects(body) == [("b", key)]
