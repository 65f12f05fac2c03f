"""Errors that Spark shows as one sentence."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from tidegate.errors import ContractError, TidegateError

_LOG = logging.getLogger("tidegate.planner")


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Let Spark show an error that is not a bug as its sentence, without a stack trace.

    Spark looks at the variable when the exception reaches it, and then ends the worker process.
    """
    try:
        yield
    except ContractError:
        raise
    except TidegateError:
        if not _LOG.isEnabledFor(logging.DEBUG):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def sentence_of(error: PySparkException) -> str:
    """Return the sentence in an error of Spark, without its codes and without the plan that follows."""
    text = str(error).strip().removeprefix(f"[{error.getCondition()}] ")
    return re.split(r" SQLSTATE|;?\n|;$", text)[0]
