import torch
import torch.nn.functional as F

OBJECTIVES = {}


def objective(name, weight):
    def register(fn):
        OBJECTIVES[name] = (weight, fn)
        return fn
    return register


def _gram(feat):
    b, c, h, w = feat.shape
    flat = feat.reshape(b, c, h * w)
    return torch.bmm(flat, flat.transpose(1, 2)) / (c * h * w)


@objective("content", 1.0)
def content_distance(out, content, style):
    return F.mse_loss(out[-1], content[-1])


@objective("style", 4.0)
def style_distance(out, content, style):
    total = 0.0
    for o, s in zip(out, style):
        total = total + (_gram(o) - _gram(s)).abs().mean()
    return total


@objective("range", 0.1)
def feature_range(out, content, style):
    return sum(F.relu(o.float() - 60.0).mean() for o in out)


def build_objectives(names):
    chosen = {n: OBJECTIVES[n] for n in names}

    def evaluate(out, content, style):
        parts = {n: fn(out, content, style) for n, (_, fn) in chosen.items()}
        total = sum(chosen[n][0] * v.float() for n, v in parts.items())
        return total, parts

    return evaluate
