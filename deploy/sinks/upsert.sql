-- One row, from parameters with the names of its columns. A release that comes again takes the
-- place of the one that is there.
INSERT INTO releases VALUES (
    :topology, :statistic, :slot, :subject, :position, :slot_start, :slot_end, :category, :bin_low,
    :bin_high, :value, :standard_error, :low, :high, :reports, :strategy, :reliability, :above,
    :error, :guarantee, :round, :error_reason
)
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
