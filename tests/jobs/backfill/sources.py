"""Sources of back-fills, as the command makes them."""

from tidegate.jobs.backfill import backfill_source


def asked(out, path=None, *, max_drift="1 hour", begin=None, end=None, options=(), **of_kafka):
    """Return the source of a command; ``options``: pairs, or a mapping."""
    return backfill_source(
        out,
        max_drift=max_drift,
        max_out_of_orderness="0 seconds",
        begin=begin,
        end=end,
        options=[f"{name}={value}" for name, value in dict(options).items()],
        path=path,
        of_kafka={f"--{name.replace('_', '-')}": value for name, value in of_kafka.items()},
    )
