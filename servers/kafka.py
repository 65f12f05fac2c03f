"""A real Apache Kafka cluster (KRaft) for development, demonstrations and tests, with TLS and logins if wanted."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ServerError
from tidegate.servers.java import find_jars, spark_jars
from tidegate.servers.process import Sandbox
from tidegate.servers.server import HOST, Server, free_ports

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT_CERTIFICATE = "MTLS"
TOKEN_AUDIENCE = "kafka"  # noqa: S105 - this is no token

_MODULES = "org.apache.kafka.common.security"
_TOKEN_VALIDATOR = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """Further listeners of every broker, besides the listener without security that brokers use among themselves.

    users: the password of each user, for PLAIN and SCRAM.  Users add the listener ``SASL_PLAINTEXT``.
    keystore: a PEM file with the brokers' private key, not encrypted, and their certificate.  It adds the listener
        ``SSL``, and with users also ``SASL_SSL``.
    truststore: a PEM file with a CA.  It adds the listener ``MTLS``, where clients must have a certificate of this CA.
        It needs ``keystore``.
    further_keystores: the keystores of further listeners with TLS, by the listener's name, such as ``EXPIRED``.
    token_keys: a JWKS file with the public keys for tokens, whose audience is ``kafka``.  It adds OAUTHBEARER to the
        listeners with ``SASL_``, also without ``users``.
    has_acls: users need rights, which ``KafkaServer.allow`` gives.  All clients without a login have all rights.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    keystore: str | Path | None = None
    truststore: str | Path | None = None
    further_keystores: Mapping[str, str | Path] = field(default_factory=dict)
    token_keys: str | Path | None = None
    has_acls: bool = False

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener, by the listener's name."""
        has_logins = bool(self.users) or self.token_keys is not None
        named = {
            "SASL_PLAINTEXT": has_logins,
            "SSL": self.keystore is not None,
            "SASL_SSL": has_logins and self.keystore is not None,
        }
        listeners = {name: name for name, is_wanted in named.items() if is_wanted}
        listeners |= dict.fromkeys(self.further_keystores, "SSL")
        return listeners | ({CLIENT_CERTIFICATE: "SSL"} if self.truststore is not None else {})

    @property
    def settings(self) -> dict[str, str]:
        """The properties of a broker with these listeners."""
        settings: dict[str, str] = {}
        if self.keystore is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.truststore is not None:
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.truststore),
                f"listener.name.{CLIENT_CERTIFICATE.lower()}.ssl.client.auth": "required",
            }
        for listener, keystore in self.further_keystores.items():
            settings[f"listener.name.{listener.lower()}.ssl.keystore.location"] = str(keystore)
            settings[f"listener.name.{listener.lower()}.ssl.keystore.type"] = "PEM"
        for listener in (name for name in self.protocols if name.startswith("SASL_")):
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(self._mechanisms)
            for mechanism in self._mechanisms:
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = self._jaas(mechanism)
            if self.token_keys is not None:
                settings[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _TOKEN_VALIDATOR
        if self.token_keys is not None:
            settings |= {
                "sasl.oauthbearer.jwks.endpoint.url": self._keys_url,
                "sasl.oauthbearer.expected.audience": TOKEN_AUDIENCE,
                # The default validator of Kafka 4.1 is for clients, and checks no signature.
                "sasl.oauthbearer.jwt.validator.class": f"{_MODULES}.oauthbearer.BrokerJwtValidator",
            }
        if self.has_acls:
            settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": "User:ANONYMOUS"}
        return settings

    @property
    def jvm_options(self) -> list[str]:
        """The arguments for the broker's Java; they allow it to read the keys of tokens."""
        if self.token_keys is None:
            return []
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys_url}"]

    @property
    def _keys_url(self) -> str:
        return Path(str(self.token_keys)).absolute().as_uri()

    @property
    def _mechanisms(self) -> list[str]:
        return [*(PASSWORD_MECHANISMS if self.users else ()), *([] if self.token_keys is None else ["OAUTHBEARER"])]

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "OAUTHBEARER":
            return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        if mechanism != "PLAIN":
            return f"{_MODULES}.scram.ScramLoginModule required;"
        # A broker's settings cannot hold a name with other characters.  Such a user can log in only by SCRAM.
        plain = {name: password for name, password in self.users.items() if name.isidentifier()}
        users = "".join(f' user_{name}="{password}"' for name, password in plain.items())
        return f"{_MODULES}.plain.PlainLoginModule required{users};"


COORDINATE = "org.apache.kafka:kafka_2.13:4.1.1"
JVM_OPTIONS = ["-Xmx1g", "-Dlog4j2.level=WARN"]
LATEST = -1  # as an offset, in Kafka's protocol
LOGGING_JARS = ["slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar", "log4j-api-2*.jar", "log4j-core-*.jar"]
FOREVER = "-1"
_ID_LENGTH = 22  # the length of Kafka's ids, in characters
_META, _BOOTSTRAP = "meta.properties", "bootstrap.checkpoint"  # the files of a formatted storage
ANY_DISTANCE_MS = str(2**63 - 1)

DEFAULTS: dict[str, str] = {
    # Records may have any time.  With Kafka's defaults, old records are deleted within minutes, and records whose time
    # is more than an hour ahead are refused.
    "log.retention.ms": FOREVER,
    "log.retention.bytes": FOREVER,
    "log.message.timestamp.before.max.ms": ANY_DISTANCE_MS,
    "log.message.timestamp.after.max.ms": ANY_DISTANCE_MS,
    # A misspelt topic must be an error, not a new topic.
    "auto.create.topics.enable": "false",
    # One broker must suffice.  With small internal topics, the first group and the first transaction are quick.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill, the controller refuses the new broker until the old one's session has expired.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


# The features of a new cluster, by the class path.  Kafka's tool takes a second to write them, since it starts another
# Java.
_bootstraps: dict[str, bytes] = {}


class KafkaServer(Server):
    """Apache Kafka in KRaft mode on ports of 127.0.0.1; use it as a context manager.

    port: the port of the first broker; further brokers have the ports after it.  None: any free ports.
    brokers: the number of brokers.  Their node ids are 1, 2 and so on.  Each of several brokers is in a rack of its
        own, such as ``rack-2``.
    controllers: the number of brokers that are also controllers; these are the first ones.  The cluster works while
        more than half of the controllers run.  With one controller, all other brokers may be killed; with three, any
        one broker.
    properties: lines of ``server.properties`` that replace the defaults.  The defaults keep every record forever, and
        accept every timestamp.  ``listeners``, such as ``SSL://127.0.0.1:9093``, are added to the others, and are only
        for a single broker.
    security: adds listeners with TLS or a login to every broker; see :meth:`servers_of`.
    folder: keeps the data after :meth:`stop`, for a later server with the same number of brokers.  None: the data is
        in a temporary folder, which is removed with the server.
    timeout_seconds: the maximum time of each wait, such as a start.

    The jars come from Maven Central on first use, or from the folder that ``KAFKA_LIBS`` names.  No process, port or
    temporary folder is left behind, however the calling process ends.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        brokers: int = 1,
        controllers: int = 1,
        properties: Mapping[str, str] | None = None,
        security: KafkaSecurity | None = None,
        folder: str | Path | None = None,
        timeout_seconds: float = 60,
    ) -> None:
        self._security = security or KafkaSecurity()
        secured = list(self._security.protocols)
        wanted = range(0) if port is None else range(port, port + brokers)
        ports = free_ports(controllers + brokers * (1 + len(secured)), besides=wanted)
        controller_ports, ports = ports[:controllers], ports[controllers:]
        super().__init__("kafka", wanted or ports[:brokers], folder, timeout_seconds)
        self._properties = dict(properties or {})
        further = iter(ports[brokers:])
        self._secured = {node: {listener: next(further) for listener in secured} for node in self._ports}
        self._controllers = {node: f"{HOST}:{port}" for node, port in enumerate(controller_ports, start=1)}

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, ``host:port`` joined by commas; they stay the same unless a broker is moved."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def servers_of(self, listener: str) -> str:
        """Return the addresses of a listener that ``security`` adds: SSL, MTLS, SASL_PLAINTEXT or SASL_SSL.

        Raises KeyError for another name.
        """
        return ",".join(f"{HOST}:{ports[listener]}" for ports in self._secured.values())

    def address(self, node: int) -> str:
        """Return the address of one broker."""
        return f"{HOST}:{self._ports[node]}"

    def move(self, node: int) -> None:
        """Kill one broker, and start it again with its data under another address."""
        self.kill(node)
        (self._ports[node],) = free_ports(1)
        self.restart(node)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: Sequence[int] = (),
    ) -> None:
        """Create a topic, and return when it can be used.

        replicas: the node ids of the replicas of all partitions; the first one is the preferred leader.  Empty: each
            partition is on one node, which Kafka chooses.

        Raises ``kafka.errors.TopicAlreadyExistsError``, among others.
        """
        with self._admin() as admin:
            topic: dict[str, Any] = {"configs": dict(configs or {})}
            if replicas:
                topic["assignments"] = {partition: list(replicas) for partition in range(partitions)}
            else:
                topic |= {"num_partitions": partitions, "replication_factor": 1}
            admin.create_topics({name: topic})
            self._await(partial(_serves_topic, admin, name, partitions), min(self.pids))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and return when brokers no longer list it."""
        with self._admin() as admin:
            admin.delete_topics([name])
            self._await(lambda: name not in admin.list_topics())

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions, and return when they can be used; the new ones are empty."""
        with self._admin() as admin:
            admin.create_partitions({name: total})
            self._await(partial(_serves_topic, admin, name, total))

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records of partitions before an offset each, as retention does; all readers see it at once."""
        from kafka import TopicPartition

        with self._admin() as admin:
            admin.delete_records({TopicPartition(topic, partition): offset for partition, offset in offsets.items()})

    def add_scram_user(self, name: str, password: str, *, iterations: int = 4096) -> None:
        """Allow a user to log in by SCRAM, and return when the brokers know the user."""
        from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        with self._admin() as admin:
            for kind in mechanisms:  # a request may have only one mechanism for each user
                credential = UserScramCredentialUpsertion(name, kind, password, iterations=iterations)
                if (problem := admin.alter_user_scram_credentials([credential])[name]) is not None:
                    raise ServerError(f"Kafka does not take the user {name!r}: {problem}")
            # A user whom nobody knows is also described, and each mechanism becomes known by itself.
            self._await(
                lambda: len(admin.describe_user_scram_credentials([name])[name]["credential_infos"]) == len(mechanisms),
                min(self.pids),
            )

    def allow(self, user: str, operation: str, topic: str) -> None:
        """Give a user a right on a topic, such as ``READ``, and return when the brokers know it."""
        from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

        pattern = ResourcePattern(ResourceType.TOPIC, topic)
        right = ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, pattern)
        with self._admin() as admin:
            admin.create_acls([right])
            self._await(lambda: right in admin.describe_acls(right)[0])

    def _start(self, sandbox: Sandbox, nodes: list[int]) -> None:
        libraries = find_jars(COORDINATE, override="KAFKA_LIBS")
        # Kafka logs by SLF4J, but its jars have no backend.  So Spark's is used, and comes first, since Spark's SLF4J
        # is newer.
        classpath = ":".join([*map(str, spark_jars(*LOGGING_JARS)), f"{libraries}/*"])
        java = self._java(sandbox, *JVM_OPTIONS, *self._security.jvm_options, "-classpath", classpath)

        settings = {node: self._write_settings(node, self._folder or sandbox.folder) for node in nodes}
        self._format(sandbox, java, settings)
        for node, path in settings.items():
            self._running[node] = sandbox.spawn([*java, "kafka.Kafka", str(path)], path.with_name("broker.log"))
        for node in nodes:
            self._await_port(node)
        with self._admin() as admin:
            for node in nodes:
                self._await(partial(_serves, admin, node), node)
        for name, password in self._security.users.items():
            self.add_scram_user(name, password)

    def _format(self, sandbox: Sandbox, java: list[str], settings: Mapping[int, Path]) -> None:
        """Format the storage of new nodes, the first one of this process by Kafka's tool, and others as copies."""
        cluster_id = secrets.token_hex(_ID_LENGTH // 2)
        class_path = java[-1]
        for node, path in settings.items():
            data = path.parent / "data"
            if (data / _META).exists():
                continue
            if class_path in _bootstraps:
                data.mkdir(exist_ok=True)
                (data / _BOOTSTRAP).write_bytes(_bootstraps[class_path])
                ids = {"cluster.id": cluster_id, "directory.id": secrets.token_hex(_ID_LENGTH // 2), "node.id": node}
                _write_properties(data / _META, {"version": 1, **ids})
                continue
            command = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id]
            process = sandbox.spawn([*command, "--config", str(path)], path.with_name("format.log"))
            if process.wait(self._timeout_seconds) != 0:
                raise ServerError(f"Kafka's storage could not be formatted{process.last_lines()}")
            _bootstraps[class_path] = (data / _BOOTSTRAP).read_bytes()

    def _write_settings(self, node: int, home: Path) -> Path:
        folder = home / f"broker-{node}"
        folder.mkdir(parents=True, exist_ok=True)
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self._security.protocols}
        listeners = {"PLAINTEXT": f"{HOST}:{self._ports[node]}"}
        listeners |= {name: f"{HOST}:{port}" for name, port in self._secured[node].items()}
        if node in self._controllers:
            listeners["CONTROLLER"] = self._controllers[node]
        further = filter(None, [self._properties.get("listeners")])
        settings = {
            **DEFAULTS,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            **self._security.settings,
            **self._properties,
            "node.id": node,
            **({"broker.rack": f"rack-{node}"} if len(self._ports) > 1 else {}),
            "process.roles": "broker,controller" if node in self._controllers else "broker",
            "controller.quorum.voters": ",".join(f"{voter}@{at}" for voter, at in self._controllers.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join([*(f"{name}://{address}" for name, address in listeners.items()), *further]),
            "log.dirs": folder / "data",
        }
        path = folder / "server.properties"
        _write_properties(path, settings)
        return path

    def _admin(self) -> KafkaAdminClient:
        from kafka import KafkaAdminClient

        return KafkaAdminClient(bootstrap_servers=[f"{HOST}:{self._ports[node]}" for node in self.pids])


def _write_properties(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def _serves(admin: KafkaAdminClient, node: int) -> bool:
    """Return whether the controller lets a broker serve; a broker that starts is fenced at first."""
    from kafka.errors import KafkaConnectionError

    try:
        brokers = admin.describe_cluster()["brokers"]
    except KafkaConnectionError:  # the client may ask a broker that was killed
        return False
    return any(broker["broker_id"] == node and not broker["is_fenced"] for broker in brokers)


def _serves_topic(admin: KafkaAdminClient, topic: str, partitions: int) -> bool:
    """Return whether the leaders of all partitions serve them; the controller names leaders a little before that."""
    from kafka import TopicPartition
    from kafka.errors import KafkaError

    known = admin.describe_topics([topic])[0]["partitions"]
    if len([partition for partition in known if partition["leader_id"] >= 0]) < partitions:
        return False
    with suppress(KafkaError):
        admin.list_partition_offsets({TopicPartition(topic, partition): LATEST for partition in range(partitions)})
        return True
    return False
