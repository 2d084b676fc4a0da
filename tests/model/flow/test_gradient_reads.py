"""What reads gradients for their size, and what changes them by what does not scale with them."""

from __future__ import annotations

import textwrap

import pytest

from amplint.base.target import nothing_declared
from amplint.model.flow.gradient_reads import read_of, reads_of_statement
from amplint.model.flow.value_uses import ValueUses
from amplint.model.module import Module, build
from amplint.model.syntax import ir
from amplint.sources.source import Source

PROGRAM = """
import logging, math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_, get_total_norm

log = logging.getLogger(__name__)


class Net(nn.Module):
    pass


def measure(module):
    return torch.stack([q.grad.norm() for q in module.parameters()]).norm().item()


def finite(module):
    return all(torch.isfinite(q.grad).all() for q in module.parameters())


def train(model, loss, scaler, optimizer, x, stats, limit, decay, inv_scale, writer, i):
    scaler.scale(loss).backward()
{body}
    scaler.step(optimizer)
    scaler.update()
"""


def module_of(body: str) -> Module:
    text = PROGRAM.replace("{body}", textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))
    return build(Source("test.py", text), nothing_declared())


def found_in(body: str) -> list[str]:
    module = module_of(body)
    train = next(each for each in module.functions if each.name == "train")
    found = {}
    for statement in ir.walk_statements(train.body, into=False):
        for event in reads_of_statement(module, statement):
            found[event.call.id] = event.how
        for root in statement.values():
            for value in ir.walk_values(root):
                event = read_of(module, value)
                if event is not None:
                    found[event.call.id] = event.how
    return sorted(found.values())


READ = {
    "a list of norms": "print(torch.norm(torch.stack([torch.norm(p.grad.detach(), 2) for p in model.parameters()])))",
    "a sum of squares": """
        total = 0
        for p in model.parameters():
            total += p.grad.data.norm(2).item() ** 2
        total = total ** 0.5
        log.info("norm %s", total)
    """,
    "a generator": "writer.add_scalar('g', sum(p.grad.pow(2).sum() for p in model.parameters()).sqrt(), i)",
    "through numpy": """
        sizes = [np.linalg.norm(p.grad.cpu().numpy()) for p in model.parameters()]
        stats["mean"] = np.mean(sizes)
    """,
    "of a layer": "stats['first'] = model.layers[0].weight.grad.abs().mean().item()",
    "of the first": "print(next(model.parameters()).grad.norm())",
    "of a group": """
        for group in optimizer.param_groups:
            stats[group["name"]] = torch.cat([q.grad.flatten() for q in group["params"]]).norm()
    """,
    "a total": "if get_total_norm([p.grad for p in model.parameters()]) > limit:\n    log.warning('large')",
    "in a variable": """
        for name, p in model.named_parameters():
            g = p.grad
            if g is not None and g.abs().max().item() > 1.0:
                log.warning(name)
    """,
    "a histogram": "writer.add_histogram('grad', model.head.weight.grad, i)",
    "a histogram of every parameter": """
        for name, value in model.named_parameters():
            writer.add_histogram(f"{name}.grad", value.grad.detach().cpu(), i)
    """,
    "a function of the file": "stats.update(norm=measure(model))",
    "the share to the weights": "for p in model.parameters():\n    print((p.grad.norm() / p.norm()).item())",
    "large elements counted": "print(sum((p.grad.abs() > 1e3).sum() for p in model.parameters()))",
    "in a dict": "log.info({n: p.grad.std().item() for n, p in model.named_parameters()})",
    "a string": "message = 'norm %.3f' % model.weight.grad.norm()\nprint(message)",
    "returned": "norm = model.weight.grad.norm()\nreturn norm",
    "a walrus": "if (n := model.weight.grad.norm()) > 3:\n    print('large')",
    "asserted": "assert model.weight.grad.norm() < 100",
}
CHANGED = {
    "noise": "for p in model.parameters():\n    p.grad.add_(torch.randn_like(p.grad) * decay)",
    "noise in a variable": "noise = torch.randn(3)\nmodel.weight.grad += 0.1 * noise",
    "weight decay": "for p in model.parameters():\n    p.grad.add_(p, alpha=decay)",
    "weight decay, the old way": "for p in model.parameters():\n    p.grad.data.add_(decay, p.data)",
    "weight decay of an attribute": "model.head.weight.grad += decay * model.head.weight",
    "lasso": "for p in model.parameters():\n    p.grad.add_(decay * torch.sign(p.data))",
    "subtracted": "for p in model.parameters():\n    p.grad.sub_(0.1 * p.detach())",
    "assigned": "for p in model.parameters():\n    p.grad = decay * p.data + p.grad",
    "a constant": "for p in model.parameters():\n    p.grad += 1e-8",
    "small ones set to zero": "for p in model.parameters():\n    p.grad[p.grad.abs() < 1e-4] = 0",
    "small ones filled": "for p in model.parameters():\n    p.grad.masked_fill_(p.grad.abs() < limit, 0.0)",
    "small ones multiplied away": "for p in model.parameters():\n    p.grad *= (p.grad.abs() > 1e-4).float()",
}
NEITHER = {
    "finite": "ok = all(torch.isfinite(p.grad).all() for p in model.parameters())\nprint(ok)",
    "a finite norm": "n = model.weight.grad.norm()\nif not torch.isfinite(n):\n    return",
    "nan": "n = measure(model)\nif math.isnan(n) or n != n or n == float('inf') or n > math.inf:\n    return",
    "zero": "if model.weight.grad.norm() == 0 or model.weight.grad.abs().max() > 0:\n    print('zero')",
    "shape": "print([p.grad.shape for p in model.parameters()], model.weight.grad.numel(), model.weight.grad.dtype)",
    "there at all": "print([n for n, p in model.named_parameters() if p.grad is None])",
    "sign": "print(torch.sign(model.weight.grad).mean(), (model.weight.grad > 0).sum())",
    "a function of the file that asks for infinity": "print(finite(model))",
    "a direction": "g = model.weight.grad\nprint((g / g.norm()).mean())",
    "a direction, eps added": "g = model.weight.grad\nn = g.norm() + 1e-8\nprint((g / n)[0])",
    "normalised in place": "for p in model.parameters():\n    p.grad /= p.grad.norm() + 1e-8",
    "normalised by a method": "for p in model.parameters():\n    p.grad.div_(p.grad.norm())",
    "clipped by hand": """
        n = measure(model)
        print(n)
        for p in model.parameters():
            p.grad.mul_(limit / n)
    """,
    "a cosine": "print(F.cosine_similarity(model.a.weight.grad.flatten(), model.b.weight.grad.flatten(), dim=0))",
    "a ratio": "print(model.a.weight.grad.norm() / model.b.weight.grad.norm())",
    "compared with each other": "print(model.a.weight.grad.norm() > model.b.weight.grad.norm())",
    "compared with the one before": """
        n = measure(model)
        if stats.previous_grad_norm is not None and n > 2 * stats.previous.grad:
            return
    """,
    "divided by the scale": "print(measure(model) * inv_scale)",
    "divided by the scale later": "n = measure(model)\nn = n / stats.loss_scale\nprint(n)",
    "divided by the scale in place": "n = measure(model)\nn /= stats.loss_scale\nprint(n)",
    "an input's": "print(x.grad.norm())\nx_adv = x + limit * x.grad.sign()",
    "nothing done": "measure(model)\nn = model.weight.grad.norm()",
    "who knows": "n = model.weight.grad.norm()\nstats.check(n)",
    "centred": "for p in model.parameters():\n    p.grad.sub_(p.grad.mean())",
    "a multiple": "for p in model.parameters():\n    p.grad.mul_(0.5)\n    p.grad.add_(p.grad, alpha=0.1)",
    "noise of their size": "for p in model.parameters():\n    p.grad.add_(torch.randn_like(p) * p.grad.std())",
    "noise times the scale": "for p in model.parameters():\n    p.grad.add_(torch.randn_like(p) / inv_scale)",
    "other gradients": "for p, q in zip(model.parameters(), stats.parameters()):\n    p.grad.add_(q.grad)",
    "what is not known": "for p in model.parameters():\n    p.grad += stats[p]\n    p.grad.add_(decay)",
    "zero added": "for p in model.parameters():\n    p.grad += 0 * p",
    "a quantile of their own": """
        for p in model.parameters():
            t = torch.quantile(p.grad.abs(), 0.1)
            p.grad[p.grad.abs() < t] = 0
    """,
    "set to zero": "for p in model.parameters():\n    p.grad[0] = 0\n    p.grad.zero_()\n    p.grad = None",
    "weights, not gradients": "print(sum(p.norm() for p in model.parameters()))",
    "the largest's name": "print(max((p.grad.norm(), n) for n, p in model.named_parameters())[1])",
    "ranked": "print(torch.argsort(torch.stack([p.grad.norm() for p in model.parameters()])))",
    "kept, linear": "stats[i] = [p.grad.clone() for p in model.parameters()]",
    "reduced": "for p in model.parameters():\n    torch.distributed.all_reduce(p.grad)\n    p.grad.div_(8)",
}


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_reads(body: str) -> None:
    assert found_in(body) == ["read"]


@pytest.mark.parametrize("body", CHANGED.values(), ids=CHANGED)
def test_changes(body: str) -> None:
    assert found_in(body) == ["change"]


@pytest.mark.parametrize("body", NEITHER.values(), ids=NEITHER)
def test_neither(body: str) -> None:
    assert found_in(body) == []


# What becomes of `n`, which a call made.
SINKS = {
    "print(n)": {"logged"},
    "log.info('%d', n.item())": {"logged"},
    "self.n = n": {"stored"},
    "given['n'] = n": {"stored"},
    "own = {}\nown['n'] = n": set(),
    "own = {}\nown['n'] = n\nreturn own": {"returned"},
    "own = []\nown.append(n)\nprint(sum(own))": {"logged"},
    "total = 0\nfor i in given:\n    total += n\nreturn total / 2": {"returned"},
    "return 1 / n": {"divisor"},
    "return n / given.get_scale()": {"compensated"},
    "return n.div(given.loss_scale)": {"compensated", "returned"},
    "if n > given.limit:\n    return": {"compared"},
    "if n > 0 or n == float('inf') or n is None or n:\n    return": set(),
    "n.backward()": {"backward"},
    "(n * 2).backward()": {"backward"},
    "n = n + 1\nprint(n)": {"logged"},
    "n = 1\nprint(n)": set(),
    "a, b = n, 1\nprint(b)": set(),
    "for each in n:\n    print(each)": {"logged"},
    "p.grad *= n": {"rescales"},
    "p.grad += n": set(),
    "check(n)": set(),
    "print(0 if n else 1)": set(),
    "print(n if given else 1)": {"logged"},
    "print([each.item() for each in n])": {"logged"},
    "print(given[n])": set(),
    "(m := n)\nprint(m)": {"logged"},
}


@pytest.mark.parametrize("body", SINKS)
def test_sinks(body: str) -> None:
    text = "def f(self, given, p, check, log):\n    n = make()\n" + textwrap.indent(body, "    ") + "\n"
    module = build(Source("test.py", text), nothing_declared())
    (made,) = [call for call in module.calls if ir.last_name(call.func) == "make"]
    assert ValueUses(module, made).found == SINKS[body]
