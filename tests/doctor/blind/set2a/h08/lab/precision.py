import functools

import torch


def half(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        with torch.autocast("cpu", dtype=torch.float16):
            return fn(*args, **kwargs)
    return inner


def full(fn):
    """Runs a function in float32, also inside a region of lower precision."""
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        with torch.autocast("cpu", enabled=False):
            return fn(*(a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args), **kwargs)
    return inner
