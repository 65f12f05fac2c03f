"""A token endpoint of a test's own (OAuth 2.0, client credentials), and functions that give tokens."""

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.servers.stub import stub

CLIENT, CLIENT_SECRET = "reports", "of the client"


def _encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenSigner:
    """Signs tokens (RS256)."""

    def __init__(self):
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self, folder):
        """A JWKS file."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e))
        file = folder / "keys.json"
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}
        file.write_text(json.dumps({"keys": [key]}))
        return file

    def token(self, subject, audience="kafka", life_s=3600):
        claims = {"sub": subject, "aud": audience, "iat": time.time(), "exp": time.time() + life_s}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "one"}, claims]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class TokenEndpoint:
    """Gives tokens to ``CLIENT`` while it is used as a context manager; ``asked`` holds the forms that came."""

    def __init__(self, signer):
        self.signer, self.asked = signer, list[dict[str, list[str]]]()
        self.refusal: tuple[int, Any] | None = None
        self._stub = stub(self._asked)

    def _asked(self, request):
        self.asked.append(parse_qs(request.body))
        return self.answer(request.headers["Authorization"])

    def answer(self, login):
        if self.refusal is not None:
            return self.refusal
        if login != f"Basic {base64.b64encode(f'{CLIENT}:{CLIENT_SECRET}'.encode()).decode()}":
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.signer.token(CLIENT), "token_type": "Bearer", "expires_in": 3600}

    def __enter__(self):
        self.url = f"{self._stub.__enter__()}/token"
        return self

    def __exit__(self, *error):
        self._stub.__exit__(*error)


signers = {"ours": TokenSigner(), "another": TokenSigner()}


def our_token(options):
    """A function of a user, named by ``sasl.login.callback.handler.class``."""
    return signers["ours"].token(options.get("user", CLIENT)), (time.time() + 3600) * 1000


def foreign_token(_):
    return signers["another"].token(CLIENT)


def expired_token(_):
    return signers["ours"].token(CLIENT, life_s=-3600)


def no_token(_):
    raise ValueError("the role may not sign")
