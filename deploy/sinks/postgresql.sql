-- Rows as CSV on psql's standard input, into the table of releases.sql. A release that comes again
-- takes the place of the one that is there.
BEGIN;
CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS SELECT * FROM releases WHERE false;
\copy incoming FROM pstdin WITH (FORMAT csv, HEADER, FORCE_NOT_NULL (subject))
INSERT INTO releases SELECT * FROM incoming WHERE true
ON CONFLICT (topology, statistic, slot, subject, position) DO UPDATE SET
    slot_start = excluded.slot_start,
    slot_end = excluded.slot_end,
    category = excluded.category,
    bin_low = excluded.bin_low,
    bin_high = excluded.bin_high,
    value = excluded.value,
    standard_error = excluded.standard_error,
    low = excluded.low,
    high = excluded.high,
    reports = excluded.reports,
    strategy = excluded.strategy,
    reliability = excluded.reliability,
    above = excluded.above,
    error = excluded.error,
    guarantee = excluded.guarantee,
    round = excluded.round,
    error_reason = excluded.error_reason;
COMMIT;
