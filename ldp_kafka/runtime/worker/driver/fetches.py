"""What the client fetches of folded topics, a batch of the log at a time.

The client takes a batch apart in C, and then makes an object in Python of every record in it, by a
generator that its caller asks one by one: six times what C took. Here a whole batch, checked and
taken apart as ever, passes through its generator as if it were one record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from faust.transport.drivers import aiokafka

from ldp_kafka.runtime.worker.driver.client import ConsumerThread
from ldp_kafka.runtime.worker.driver.private_api import Private

__all__ = ["PRIVATE_API", "Lot", "LotThread"]


class Lot(list[Any]):
    """Records of one batch, as the client's C makes them: at least one. To the client it is one
    record, with the last one's offset.
    """

    @property
    def offset(self) -> int:
        """Of the last record."""
        return int(self[-1].offset)

    @property
    def first(self) -> int:
        """The offset of the first record."""
        return int(self[0].offset)

    def __repr__(self) -> str:
        return f"Lot({len(self)})"  # never a value


class _Batch:
    """A batch that gives all of its records as one."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[Lot]:
        if records := Lot(self.batch):
            yield records

    def __next__(self) -> Any:
        return next(self.batch)  # of a control batch its one record is read so

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, name)


class _Batches:
    """The batches of a fetch, each to be given as one record."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def has_next(self) -> bool:
        return bool(self.batches.has_next())

    def next_batch(self) -> _Batch:
        return _Batch(self.batches.next_batch())


class LotRecords(PartitionRecords):  # type: ignore[misc]
    """A fetch of one partition that gives a `Lot` a batch. Checksums, control batches and
    what a transaction took back are the client's business as before.
    """

    def _consumer_record(self, _: Any, record: Lot) -> Lot:
        """Without what lies before the place that was asked for: a batch comes whole."""
        if record[0].offset < self.next_fetch_offset:
            return Lot(each for each in record if each.offset >= self.next_fetch_offset)
        return record


class LotFetcher(Fetcher):  # type: ignore[misc]
    """Gives what it fetches of folded topics in lots."""

    folded: Collection[str]

    async def _proc_fetch_request(self, *what: Any) -> Any:
        found = await super()._proc_fetch_request(*what)
        self.regard()
        return found

    def regard(self) -> None:
        """See that what has been fetched, and not taken yet, is given in lots."""
        for place, result in self._records.items():
            if place.topic in self.folded and type(result) is FetchResult:
                records = result._partition_records  # noqa: SLF001
                if type(records) is PartitionRecords:
                    # nobody has asked it for a record yet, so its generator has not begun: a fetch
                    # is taken whole, since the app sets no ``broker_max_poll_records``
                    records.__class__ = LotRecords
                    records._records = _Batches(records._records)  # noqa: SLF001


class LotThread(ConsumerThread):
    """The thread in which Faust runs its client, whose fetcher gives lots."""

    async def _fetch_records(self, consumer: Any, *what: Any, **how: Any) -> Any:
        fetcher = consumer._fetcher  # noqa: SLF001
        if type(fetcher) is Fetcher:  # the client has made it since: this is the first time
            fetcher.__class__ = LotFetcher
            fetcher.folded = self.app.folded
            fetcher.regard()
        return await super()._fetch_records(consumer, *what, **how)


PRIVATE_API = (
    Private(aiokafka.AIOKafkaConsumerThread, "_fetch_records", "the fetcher is changed there"),
    Private(aiokafka.AIOKafkaConsumerThread, "self._fetch_records,\n            _consumer",
            "it is given the client", "getmany"),
    Private(aiokafka.AIOKafkaConsumerThread, "fetcher = consumer._fetcher", "that is its fetcher",
            "_fetch_records"),
    Private(AIOKafkaConsumer, "self._fetcher = Fetcher(", "the client makes it", "start"),
    Private(Fetcher, "_proc_fetch_request", "what it has fetched is changed at once"),
    Private(Fetcher, "self._proc_fetch_request(assignment, node_id, request)", "it is called",
            "_fetch_requests_routine"),
    Private(Fetcher, "self._records[tp] = FetchResult(", "what is fetched lies there",
            "_proc_fetch_request"),
    Private(Fetcher, "res_or_error.getall(max_records)", "it is taken from there",
            "fetched_records"),
    Private(FetchResult, "self._partition_records = partition_records", "its records",
            "__init__"),
    Private(FetchResult, "for msg in self._partition_records", "they are iterated over", "getall"),
    Private(PartitionRecords, "_consumer_record", "a batch stays as it is"),
    Private(PartitionRecords, "self._consumer_record(tp, record)", "it is called",
            "_unpack_records"),
    Private(PartitionRecords, "records = self._records", "batches are those of a fetch",
            "_unpack_records"),
    Private(PartitionRecords, "next_batch = records.next_batch()", "each is asked for",
            "_unpack_records"),
    Private(PartitionRecords, "for record in next_batch", "a batch is one record",
            "_unpack_records"),
    Private(PartitionRecords, "if record.offset < self.next_fetch_offset", "by its last offset",
            "_unpack_records"),
    Private(PartitionRecords, "self.next_fetch_offset = record.offset + 1", "what comes next",
            "_unpack_records"),
)  # fmt: skip
