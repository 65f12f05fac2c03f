"""A command of the command line, as Typer has it, but for what it says of missing options."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

__all__ = ["Command"]


class Command(TyperCommand):
    """A command that names all missing options and arguments at once; Typer by itself names only the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.  Raises the usage errors of Typer."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if _is_missing(error):
                values, *_ = self.make_parser(ctx).parse_args(args=given)
                ctx.fail(" ".join(filter(None, (_missing(each, ctx, values) for each in self.get_params(ctx)))))
            raise


def _missing(parameter: Any, ctx: Any, values: Any) -> str | None:
    """Return Typer's sentence for a parameter that must be given and is not."""
    try:
        parameter.handle_parse_result(ctx, values, [])
    except typer.BadParameter as error:
        return error.format_message() if _is_missing(error) else None
    return None


def _is_missing(error: typer.BadParameter) -> bool:
    return type(error).__name__ == "MissingParameter"  # Typer does not export the class
