from concurrent.futures import ThreadPoolExecutor

import pytest

from tidegate.errors import ServerError
from tidegate.servers import java
from tidegate.servers.java import find_jars, find_java, spark_jars

SMALL = "org.slf4j:slf4j-api:2.0.17"  # has no dependencies


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tidegate" / "maven" / "org.slf4j" / "slf4j-api"


def test_an_unreachable_registry_is_reported_in_one_sentence(cache, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    with pytest.raises(ServerError, match="could not be resolved from Maven Central") as raised:
        find_jars(SMALL, override="SLF4J_LIBS")
    sentence = str(raised.value)
    assert "Connection refused" in sentence
    assert "SLF4J_LIBS" in sentence
    assert "\n" not in sentence
    assert not list(cache.iterdir())


def test_two_at_once_share_one_whole_folder_and_the_next_reuses_it(cache, monkeypatch):
    with ThreadPoolExecutor() as pool:
        folders = {download.result() for download in [pool.submit(find_jars, SMALL, "SLF4J_LIBS") for _ in range(2)]}
    assert folders == {cache / "2.0.17"}
    assert [path.name for path in cache.rglob("*")] == ["2.0.17", "slf4j-api-2.0.17.jar"]

    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # jars in the cache need no Java
    assert {find_jars(SMALL, "SLF4J_LIBS")} == folders


def test_a_jar_with_another_digest_than_ours_is_refused(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(java, "DIGESTS", tmp_path / "jars.sha256")
    java.DIGESTS.write_text(f"{0:064}  slf4j-api-2.0.17.jar\n")
    with pytest.raises(ServerError, match=rf"^slf4j-api-2\.0\.17\.jar of {SMALL} .* has 0{{64}}: .*SLF4J_LIBS"):
        find_jars(SMALL, "SLF4J_LIBS")
    assert not list(cache.iterdir())


def test_a_classifier_names_one_jar_beside_the_others(cache):
    folder = find_jars(f"{SMALL}:sources", "SLF4J_LIBS", transitive=False)
    assert folder == cache / "2.0.17-sources-alone"
    assert [path.name for path in folder.iterdir()] == ["slf4j-api-2.0.17-sources.jar"]


def test_missing_java_is_reported_in_one_sentence(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ServerError, match="Java 17 or newer is needed, as for Spark, but JAVA_HOME=/nowhere holds no"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerError, match="the PATH holds no java"):
        find_java()


def test_an_old_java_is_refused(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServerError, match="is Java 8"):
        find_java()


def test_a_jar_that_pyspark_lacks_is_named():
    with pytest.raises(ServerError, match=r"holds no no-such-\*\.jar"):
        spark_jars("no-such-*.jar")
