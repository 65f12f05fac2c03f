"""Logs in by real Kerberos: a key distribution centre of MIT Kerberos, a broker that uses it, and a reader.

python -m tests.readers.kafka.wire.kerberos_login

Needs krb5kdc, kdb5_util, kadmin.local and kinit (Debian: krb5-kdc, krb5-admin-server, krb5-user), and gssapi.
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import await_that
from tests.support.kafka.lab import Lab, Record, encode
from tidegate.alignment.splits import SplitRange
from tidegate.errors import TidegateError
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.servers import KafkaServer
from tidegate.servers.process import Sandbox
from tidegate.servers.server import HOST, free_ports
from tidegate.sources.kafka.java.properties import connection_config

REALM = "TIDEGATE.TEST"
SERVICE, USER, STRANGER = f"kafka/{HOST}@{REALM}", f"me@{REALM}", f"stranger@{REALM}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
ROWS = 20


class Realm:
    """A realm with a service and a user; ``keytab`` returns the file of a principal's key."""

    def __init__(self, folder, sandbox):
        self._folder = folder
        (port,) = free_ports(1)
        config, profile = folder / "krb5.conf", folder / "kdc.conf"
        config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n rdns = false\n"
            f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = {HOST}:{port}\n }}\n"
        )
        profile.write_text(
            f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n[realms]\n {REALM} = {{\n"
            f"  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n }}\n"
        )
        os.environ |= {
            "KRB5_CONFIG": str(config),
            "KRB5_KDC_PROFILE": str(profile),
            "KRB5CCNAME": f"FILE:{folder}/of-the-process",
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={config}",
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "secret")
        for principal in (SERVICE, USER, STRANGER):
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {self.keytab(principal)} {principal}")
        sandbox.spawn([command("krb5kdc"), "-n"], folder / "kdc.log")
        await_that(lambda: self.ticket(USER) is not None, 30, (folder / "kdc.log").read_text)

    def keytab(self, principal):
        return self._folder / f"{principal.partition('/')[0].partition('@')[0]}.keytab"

    def ticket(self, principal):
        """Return a ticket cache; None: the centre gives no ticket."""
        cache = self._folder / "cache"
        asked = [command("kinit"), "-k", "-t", str(self.keytab(principal)), "-c", f"FILE:{cache}", principal]
        return cache if subprocess.run(asked, capture_output=True, check=False).returncode == 0 else None

    def _run(self, *arguments):
        subprocess.run([command(arguments[0]), *arguments[1:]], check=True, capture_output=True)


def command(name):
    """Return the path of a program of Kerberos, which may be outside the PATH."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        raise SystemExit(f"{name} is needed: apt-get install krb5-kdc krb5-admin-server krb5-user")
    return path


@contextmanager
def broker(realm):
    """Start a broker; yield it, and the address of the listener that requires tickets."""
    (port,) = free_ports(1)
    address = f"{HOST}:{port}"
    listener = "listener.name.kerberos"
    key = f'{MODULE} useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}";'
    properties = {
        "listeners": f"KERBEROS://{address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
        f"{listener}.sasl.enabled.mechanisms": "GSSAPI",
        f"{listener}.sasl.kerberos.service.name": "kafka",
        f"{listener}.gssapi.sasl.jaas.config": key,
        "sasl.kerberos.service.name": "kafka",
        "connections.max.reauth.ms": "3000",
    }
    with KafkaServer(properties=properties) as kafka:
        yield kafka, address


def outcome(servers, topic, module):
    """Read the topic by a login module; return the number of rows, or the sentence of a refusal."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "default.api.timeout.ms": "3000",
    }
    if module:
        login["sasl.jaas.config"] = f"{MODULE} {module};"
    task = ReadTask((SplitRange(f"{topic}-0", 0, ROWS),))
    try:
        reader = KafkaSplitReader(connection_config(servers, login))
        return f"{sum(batch.num_rows for batch in reader.read(task))} rows"
    except TidegateError as error:
        return str(error)


def main():
    """Print the outcome of each login."""
    with tempfile.TemporaryDirectory() as name, Sandbox(prefix="tidegate-kerberos-") as sandbox:
        realm = Realm(Path(name), sandbox)
        with broker(realm) as (kafka, servers):
            lab = Lab(kafka)
            topic = lab.new_topic()
            lab.append(topic, encode([Record(value=b"%d" % n) for n in range(ROWS)]))
            by_key = f'useKeyTab=true keyTab="{realm.keytab(USER)}" principal="{USER}"'
            ways = {
                "the key of a user": by_key,
                "the same after the end of the login": by_key,
                "the key of another user": f'useKeyTab=true keyTab="{realm.keytab(STRANGER)}" principal="{USER}"',
                "a key table that is missing": f'useKeyTab=true keyTab="{name}/absent" principal="{USER}"',
                "a ticket cache": f'useTicketCache=true ticketCache="{realm.ticket(USER)}"',
                "no ticket": "useTicketCache=true",
            }
            for way, module in ways.items():
                began = time.monotonic()
                print(f"{way}: {outcome(servers, topic, module)}; {time.monotonic() - began:.1f} s", flush=True)
                if way == "the key of a user":
                    time.sleep(4)  # the login lasts for three seconds


if __name__ == "__main__":
    main()
