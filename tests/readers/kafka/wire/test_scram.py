"""What our logins by SCRAM add to kafka-python's."""

import base64
import hashlib
import hmac

import pytest

from tidegate.readers.kafka.wire.login import ScramMechanism, WeakLoginError


def mechanism(user="user", **more):
    login = {"sasl_plain_username": user, "sasl_plain_password": "pencil", "sasl_mechanism": "SCRAM-SHA-256"}
    return ScramMechanism(**login, **more)


def test_names_with_signs_of_the_messages_are_escaped_and_signed_so():
    dialogue = mechanism("a,b=c", sasl_delegation_token=True)
    first = dialogue.auth_bytes()
    nonce = first.split(b"r=")[1].split(b",")[0]
    assert first == b"n,,n=a=2Cb=3Dc,r=" + nonce + b",tokenauth=true"
    server = b"r=" + nonce + b"more,s=" + base64.b64encode(b"salt") + b",i=4096"
    dialogue.receive(server)
    last = dialogue.auth_bytes()
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signed = first[3:] + b"," + server + b"," + last.rpartition(b",p=")[0]
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    assert last.endswith(b",p=" + base64.b64encode(proof))


def test_too_few_iterations_are_refused_before_anything_is_sent():
    dialogue = mechanism()
    nonce = dialogue.auth_bytes().split(b"r=")[1]
    with pytest.raises(WeakLoginError, match="asks for 4095 iterations of SCRAM, and at least 4096 are safe"):
        dialogue.receive(b"r=" + nonce + b"x,s=c2FsdA==,i=4095")
