"""Tokens for Faust's client, which asks for one each time it connects; and what the other client
says of those that it asks for by itself.
"""

from __future__ import annotations

import logging
import re

__all__ = ["without_answers"]

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
