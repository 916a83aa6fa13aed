"""Faust on librdkafka, through what Faust lets an app bring along: a `Transport` with its
`Consumer` and `Fetcher`, and the setting ``TableManager``. Nothing of Faust is changed.

One private name is relied on (`Consumer._unacked_messages`, which every stream asks for), and eight
that are public without documentation; `tests/runtime/worker/transport/test_contract.py` has them.
"""
