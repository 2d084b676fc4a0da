"""What the op-by-op look finds: births, which are operations that make values that are not finite out of good ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from amplint.doctor.findings import Place


class Origin(str, Enum):
    """Where the values of a birth come from."""

    OVERFLOW = "overflow"  # too large for half precision, finite in float32
    UNDERFLOW = "underflow"  # by something that half precision made 0, or rounded away
    MASK = "mask"  # by infinities that are meant, such as a row that is masked completely
    MATH = "math"  # float32 fails as well
    CAST = "cast"  # a finite value that the dtype of a cast can't hold
    INCOMING = "incoming"  # read from a tensor that was not finite before


@dataclass(frozen=True)
class Flush:
    """Where half precision made a value 0 that is none.

    Attributes:
        place: The user's line.
        op: The operation.
        value: The value in float32, of the largest magnitude where there are several.
        dtype: What it was rounded to.
        result: What it became: 0, or for a difference that was rounded away what was left of it.
    """

    place: Place | None
    op: str
    value: float
    dtype: str
    result: float = 0.0


@dataclass(frozen=True)
class Birth:
    """An operation whose inputs were good and whose output is not finite.

    Attributes:
        origin: Why.
        op: What a user calls it, such as "matmul".
        place: The user's line; in a backward pass the line of the forward operation.
        stack: The user's frames, the innermost first. A backward written by the user stands before the forward line.
        module: The dotted name of the module that ran it, "" outside of all.
        dtype: Of the output, such as "float16".
        backward: Whether it is a backward operation.
        value: The largest magnitude that the result has in float32, None where that is not finite, too. For MATH the
            one that it has in float64, where float32 can't hold it.
        inputs: The largest finite magnitude of each floating input.
        kind: "inf" or "nan".
        rows: Which indices along dimension 0 of the output are not finite, the first few; empty where all are.
        of_rows: How many indices there are.
        zero: For UNDERFLOW, where a value became 0.
        parameter: For CAST, the dotted name of the parameter or buffer that was cast; for INCOMING, of what was read.
        memory: For INCOMING, where the memory of what was read lies.
        is_empty: Whether it was given a tensor without elements, such as the mean of what a mask selects.
    """

    origin: Origin
    op: str
    place: Place | None
    stack: tuple[Place, ...]
    module: str
    dtype: str
    backward: bool
    value: float | None
    inputs: tuple[float, ...]
    kind: str
    rows: tuple[int, ...] = ()
    of_rows: int = 0
    zero: Flush | None = None
    parameter: str = ""
    memory: int = 0
    is_empty: bool = False

    @property
    def is_overflow(self) -> bool:
        """Whether the result is a number, and too large for half precision or for float32."""
        return self.origin is Origin.OVERFLOW or (self.origin is Origin.MATH and self.value is not None)
