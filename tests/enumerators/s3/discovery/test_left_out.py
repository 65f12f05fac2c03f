"""Objects that were left out, and why: bounded, each version once, and kept over restarts."""

import json

from tests.enumerators.s3.objects import MODIFIED
from tidegate.enumerators.s3.discovery import left_out
from tidegate.enumerators.s3.discovery.left_out import LeftOut, LeftOutObject
from tidegate.readers.objects.values import S3Object

FOUND = S3Object("in/ünï\n.json", 7, "e", MODIFIED)


def test_each_version_is_news_once_for_each_reason():
    noted = LeftOut()
    assert noted.add(FOUND, "corrupt", 5)
    assert not noted.add(FOUND, "corrupt", 6)
    assert noted.add(FOUND._replace(etag="f"), "corrupt", 7)
    assert noted.add(FOUND, "overwritten", 8)
    assert noted.objects()[0] == LeftOutObject(FOUND, "corrupt", 5)
    assert noted.count == len(noted.objects()) == 3


def test_the_last_ones_are_kept_and_all_are_news_once(monkeypatch):
    monkeypatch.setattr(left_out, "MOST", 3)
    noted = LeftOut()
    every = [FOUND._replace(key=str(number)) for number in range(5)]
    assert [[noted.add(obj, "gone", at_ms) for obj in every] for at_ms in (7, 8)] == [[True] * 5, [False] * 5]
    assert [noted_object.obj.key for noted_object in noted.objects()] == ["2", "3", "4"]


def test_a_restart_goes_on_from_what_can_be_read():
    noted, again = LeftOut(), LeftOut()
    noted.add(FOUND, "corrupt", 5)
    noted.add(FOUND._replace(key="b"), "overwritten", 6)
    lines = noted.to_bytes().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["corrupt", "overwritten"]
    again.restore(b"\n".join([lines[0], b"{", b"[]", b'{"key": 1}', b"\xff", lines[1][:-3]]))
    assert again.objects() == noted.objects()[:1]
    assert again.count == 0
    assert not again.add(FOUND, "corrupt", 9)
