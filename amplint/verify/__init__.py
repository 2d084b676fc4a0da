"""Proves findings and fixes on real tensors. The only package that imports torch.

It can be called: `amplint.verify(text)` is `verify_steps`, whether or not this package was imported under its name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from inspect import Signature

    from amplint.config.settings import Settings
    from amplint.verify.steps.verify import StepRow


def verify_steps(
    source: str | bytes,
    filename: str | os.PathLike[str] = "<string>",
    settings: Settings | None = None,
    *,
    unsafe: bool | None = None,
    device: str | None = None,
    timeout: float = 60.0,
    memory: int = 2048,
) -> list[StepRow]:
    r"""What the AMP training steps of a program do on real tensors, as they are and with the fixes of `amplint.fix`.

    A row a step, with its `verdict`: confirmed (misbehaves before, all right after the fix), clean, misbehaves (no fix
    changes it, or not all of it), refuted (the fix leaves it wrong) or not checkable, for a `reason`. A step of another
    file of the project that the program leads to has a row as well, with its own `path`. What else has AMP has a row
    that is "not checkable" where it may train, and the step is not in sight, and "no training step" where it doesn't.
    Nothing of the program executes: its steps are interpreted in a child process, each within `timeout` seconds,
    before and after, and `memory` MiB beyond what torch takes. `device` is the one to run on, or to simulate; else the
    one that the code names. The rest is as for `amplint.fix`.

    >>> import amplint
    >>> text = '''
    ... import torch
    ...
    ... def train(model, optimizer, batches, scaler=torch.amp.GradScaler("cpu")):
    ...     for x, y in batches:
    ...         with torch.autocast("cpu", dtype=torch.float16):
    ...             loss = torch.nn.functional.mse_loss(model(x), y)
    ...         optimizer.zero_grad()
    ...         scaler.scale(loss).backward()
    ...         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    ...         scaler.step(optimizer)
    ...         scaler.update()
    ... '''
    >>> for row in amplint.verify(text):
    ...     print(row.name, row.verdict, [(found.code, found.shown) for found in row.findings])
    train confirmed [('AMP401', True)]

    Raises:
        CannotRun: torch is missing or too old, or doesn't start; the message says how to get it.
    """
    import os  # noqa: PLC0415 - most who import this package call nothing

    from amplint.api import make_settings  # noqa: PLC0415
    from amplint.base.paths import contents, look_again, shown  # noqa: PLC0415
    from amplint.verify.steps.verify import Limits, Verifier  # noqa: PLC0415

    settings = make_settings() if settings is None else settings
    name = os.fspath(filename)
    data = _encoded(source, name) if isinstance(source, str) else source
    look_again()
    with Verifier(device or settings.device, Limits(timeout, memory)) as verifier:
        found = verifier.check(name, data, settings, unsafe=unsafe)
        rows, done = found.rows, {os.path.abspath(name)}
        for path in found.looked.follow:
            if path not in done:
                done.add(path)
                rows += verifier.verify(shown(path), contents(path), settings, unsafe=unsafe)
        return rows


def _encoded(text: str, filename: str) -> bytes:
    """The bytes of a file that has the text; what can't be encoded as it says can't be parsed either, or is UTF-8."""
    from amplint.base.paths import is_always_utf8  # noqa: PLC0415
    from amplint.sources.source import SourceError, encoded  # noqa: PLC0415

    try:
        return text.encode() if is_always_utf8(filename) else encoded(text)
    except (SourceError, UnicodeError):
        return text.encode("utf-8", "surrogatepass")


class _Callable(ModuleType):
    """This package as the function that `amplint.verify` is for who calls it."""

    __call__ = staticmethod(verify_steps)

    @property
    def __signature__(self) -> Signature:
        from inspect import signature  # noqa: PLC0415 - for who asks for help

        return signature(verify_steps)

    def __reduce__(self) -> tuple[Any, ...]:
        from importlib import import_module  # noqa: PLC0415

        return import_module, (__name__,)


sys.modules[__name__].__class__ = _Callable
