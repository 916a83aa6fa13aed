"""The version, once, and how the package is installed."""

__version__ = "0.2.0"


def install(extra: str) -> str:
    """The command that installs an extra: it is on no index, so from a checkout or its wheel.

    Examples
    --------
    >>> install("plots")
    "pip install '.[plots]' in a checkout, or 'ldp_kafka-0.2.0-py3-none-any.whl[plots]'"
    """
    wheel = f"ldp_kafka-{__version__}-py3-none-any.whl"
    return f"pip install '.[{extra}]' in a checkout, or '{wheel}[{extra}]'"
