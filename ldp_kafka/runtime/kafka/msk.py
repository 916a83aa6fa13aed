"""A token for Amazon MSK with IAM: a signed address, made by Amazon's own library (extra ``msk``)
from the credentials that its tools find on this machine.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.installed import confluent_kafka
from ldp_kafka.runtime.kafka.pairs import pairs
from ldp_kafka.runtime.kafka.tokens import Token
from ldp_kafka.version import install

__all__ = ["CONFIG", "problem", "signed"]

CONFIG = "sasl.oauthbearer.config"
_KEYS = ("region", "profile", "role_arn")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
_OLDEST = (2, 13)
"""The first confluent-kafka whose clients that only ask take a token from Python."""


def problem(client: Mapping[str, Any]) -> str:
    """What is wrong with ``sasl.oauthbearer.config``, in words; empty where nothing is."""
    found = pairs(str(client.get(CONFIG, "")))
    if found is None or not {*found} <= {*_KEYS} or not _REGION.fullmatch(found.get("region", "")):
        return (
            "must be region=REGION, such as region=eu-central-1; and after a comma, where it is"
            " not the login of this machine, profile=NAME or role_arn=ARN"
        )
    return "must have one of profile and role_arn" if len(found) == len(_KEYS) else ""


def signed(client: Mapping[str, Any]) -> Token:
    """Sign one.

    Raises
    ------
    ConfigurationError : the option is not as it must be, the extra is not installed, or there are
        no credentials
    BrokerError : whoever gives credentials is away
    """
    if wrong := problem(client):
        raise ConfigurationError(f"kafka.client: {CONFIG} {wrong}")
    if (found := confluent_kafka()) < _OLDEST:
        oldest, is_ = (".".join(map(str, each)) for each in (_OLDEST, found))
        raise ConfigurationError(
            f"kafka.client: sasl.oauthbearer.method msk-iam needs confluent-kafka {oldest} or"
            f" later, found {is_}: {install('msk')}"
        )
    if find_spec("aws_msk_iam_sasl_signer") is None:
        raise ConfigurationError(
            f"kafka.client: sasl.oauthbearer.method msk-iam needs Amazon's signer: {install('msk')}"
        )
    # Only now: few topologies need it, and it takes its time to load
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    from botocore import exceptions as of_aws

    config = pairs(str(client[CONFIG])) or {}
    region, signer = config["region"], MSKAuthTokenProvider
    away = (of_aws.ConnectionError, of_aws.HTTPClientError)
    try:
        if "role_arn" in config:
            text, until = signer.generate_auth_token_from_role_arn(region, config["role_arn"])
        elif "profile" in config:
            text, until = signer.generate_auth_token_from_profile(region, config["profile"])
        else:
            text, until = signer.generate_auth_token(region)
    except Exception as error:  # noqa: BLE001 - whatever its many ways to credentials raise
        kind = type(error).__name__
        if isinstance(error, of_aws.ClientError):
            kind = str(error.response.get("Error", {}).get("Code", kind))
        if isinstance(error, away) or "Throttl" in kind:
            raise BrokerError(f"AWS gives no credentials for MSK now ({kind})") from None
        raise ConfigurationError(
            f"AWS gives no credentials for MSK ({kind}): does `aws sts get-caller-identity` say"
            f" who this machine is, and is {CONFIG} right?"
        ) from None
    return Token(text, until / 1000 - time.time())
