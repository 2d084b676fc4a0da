from collections import deque

import torch


def as_tensors(rows):
    for row in rows:
        yield torch.tensor(row)


def windows(series, width):
    """Pairs of (past, next return of the index, in per cent); the index holds the first four papers."""
    past = deque(maxlen=width)
    for r in series:
        if len(past) == width:
            yield torch.stack(list(past)), r[:4].mean() * 100
        past.append(r)


def batched(pairs, size):
    xs, ys = [], []
    for x, y in pairs:
        xs.append(x)
        ys.append(y)
        if len(xs) == size:
            yield torch.stack(xs), torch.stack(ys)
            xs, ys = [], []


def chain(source, *stages):
    for stage in stages:
        source = stage(source)
    return source
