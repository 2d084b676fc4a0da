"""Scalers that the program makes again for each epoch, as the linter's AMP408 has it: a second epoch shows that."""

from __future__ import annotations

from amplint.model.syntax import ir
from amplint.rules.shared.scalers_made_anew import made_anew
from amplint.verify.program.program import Code


def makes_in(code: Code, loop: ir.For | ir.While) -> bool:
    """Whether each iteration of a loop over epochs makes a scaler again.

    Args:
        code: the file with the loop.
        loop: the loop.

    Returns:
        Whether it does, for the same training.
    """
    return any(each.each_epoch and each.loop is loop for each in made_anew(code.module))


def makes_in_calls(code: Code, function: ir.Function) -> bool:
    """Whether each call of a function, one an epoch, makes a scaler again.

    Args:
        code: the file with the function.
        function: one that has a loop over batches.

    Returns:
        Whether it does, for the same training.
    """
    return any(
        each.each_epoch and each.loop is None and ir.function_of(each.made.call) is function
        for each in made_anew(code.module)
    )
