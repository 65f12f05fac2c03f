"""``tidegate`` and ``python -m tidegate``: the command line."""

from __future__ import annotations

import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line.  Ctrl-C ends it without a stack trace, also while Python imports its modules."""
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may ignore it
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tidegate import cli  # which takes a third of a second

    if handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
