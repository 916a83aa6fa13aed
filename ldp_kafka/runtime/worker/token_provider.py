"""Tokens for Faust's client, which asks for one each time it connects; and what the other client
says of those that it asks for by itself.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from aiokafka.abc import AbstractTokenProvider

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.runtime.kafka.tokens import Tokens

__all__ = ["TokenProvider", "without_answers"]

_ANSWER = re.compile(
    r"(?s)(Failed to (?:retrieve OIDC token from \"[^\"]*\"|acquire SASL OAUTHBEARER token)): .*?"
    r"( \([0-9]+\))?\Z"
)
"""A token endpoint's own words, and its status."""


def without_answers(record: logging.LogRecord) -> bool:
    """A filter of librdkafka's lines: whatever an endpoint answers it repeats, and nobody knows
    what that holds.
    """
    text = record.getMessage()
    said = _ANSWER.sub(r"\1\2", text)
    if said != text:
        record.msg, record.args = said, ()
    return True


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """What the client is to log in with.

    Parameters
    ----------
    tokens : of its login
    extensions : what goes to the broker beside the token
    """

    def __init__(self, tokens: Tokens, extensions: Mapping[str, str]) -> None:
        self._tokens, self._extensions = tokens, dict(extensions)

    async def token(self) -> str:
        """One that holds; the loop goes on while an endpoint is asked.

        Raises
        ------
        ConnectionError : there is none. To the client it is as if the broker did not answer: it
            tries again, as long as it lives
        """
        try:
            return await asyncio.to_thread(self._tokens.get)
        except LdpKafkaError as error:
            raise ConnectionError(str(error)) from None

    def extensions(self) -> dict[str, str]:
        return self._extensions
