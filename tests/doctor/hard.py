"""Small programs whose steps are run again by the doctor, in places where running something twice shows."""

# ruff: noqa: E501 - one line for each program
from __future__ import annotations

from typing import NamedTuple


class Hard(NamedTuple):
    """What is put into the program.

    Attributes:
        forward: Statements of the model's forward pass, where `h` is computed.
        init: Statements of its constructor.
        before: Statements before the model's class.
        made: Statements after the model is made.
        step: Statements of the loop, before the forward pass.
        after: Statements of the loop, after the loss.
        end: Statements at the end.
        loss: The loss.
        around: What the step is within.
    """

    forward: str = ""
    init: str = ""
    before: str = ""
    made: str = ""
    step: str = ""
    after: str = ""
    end: str = ""
    loss: str = "model(x).float().pow(2).mean()"
    around: str = "contextlib.nullcontext()"


_PROGRAM = """\
import collections, contextlib, copy, functools, io, itertools, logging, math, pickle, random, sys, threading, traceback, warnings
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

{before}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4)
        self.last = None
        {init}

    def forward(self, x):
        h = self.a(x)
        {forward}
        h = h * h
        return self.b(h)


def batch(step):
    x = torch.randn(4, 8)
    return x * 900 if step in (2, 3, 5) else x


model = Net()
{made}
optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=1e-3, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
for step in range(7):
    x = batch(step)
    {step}
    optimizer.zero_grad()
    with {around}:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = {loss}
        print(step, loss.item(), torch.isfinite(loss).item())
        {after}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
model.eval()
with torch.no_grad():
    for step in range(4):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(batch(step))
        print(out.float().sum().item(), random.random(), np.random.rand(), torch.rand(1).item())
{end}
"""


def program(hard: Hard) -> str:
    """The text of the program."""
    parts = hard._asdict()
    for name, spaces in (("init", 8), ("forward", 8), ("step", 4), ("after", 8)):
        parts[name] = parts[name].strip().replace("\n", "\n" + " " * spaces) or "pass"
    return _PROGRAM.format(**parts)


HARD = {
    "dropout": Hard("h = F.dropout(h, 0.3, self.training)"),
    "batch norm": Hard("h = self.norm(h) * 900", init="self.norm = nn.BatchNorm1d(8)"),
    "batch norm that nobody has registered": Hard(
        "h = self.norms[0](h) * 900", init="self.norms = [nn.BatchNorm1d(8)]"
    ),
    "batch norm in a global variable": Hard("h = NORM(h) * 900", before="NORM = nn.BatchNorm1d(8)"),
    "counts": Hard("self.calls += 1\nself.last = h\nself.peak = float(h.detach().abs().max())", init="self.calls = 0"),
    "appends": Hard("self.seen.append(h.detach())", init="self.seen = []"),
    "keeps a tensor": Hard("self.last = h", loss="model(x).float().pow(2).mean() + model.last.float().abs().mean()"),
    "adds an attribute": Hard("if not hasattr(self, 'new'):\n    self.new = h.shape[0]\ndel self.last\nself.last = h"),
    "attribute of an object": Hard(
        "self.stats.count += 1", before="class Stats: count = 0", init="self.stats = Stats()"
    ),
    "attribute of the class": Hard("Net.count += 1", made="Net.count = 0", init="Net.count = 0"),
    "dictionary": Hard("self.cache[len(self.cache)] = h.detach()", init="self.cache = {}"),
    "global cache": Hard("CACHE[len(CACHE)] = h.detach().sum()", before="CACHE = {}"),
    "global counter in a function": Hard(
        "count()", before="TOTAL = [0]\ndef count():\n    TOTAL[0] += 1\n    TOTAL.append(TOTAL[0])"
    ),
    "lambda": Hard("self.log(h)", before="SEEN = []", init="self.log = lambda h: SEEN.append(float(h.detach().sum()))"),
    "partial": Hard(
        "NOTE(h.detach())", before="SEEN = []\ndef note(to, h):\n    to.append(h)\nNOTE = functools.partial(note, SEEN)"
    ),
    "callable object": Hard(
        "METER(h)", before="class Meter:\n    n = 0\n    def __call__(self, h):\n        self.n += 1\nMETER = Meter()"
    ),
    "constructor": Hard("Made()", before="class Made:\n    n = 0\n    def __init__(self):\n        Made.n += 1"),
    "context manager": Hard(
        "with Timer():\n    h = h + 0",
        before="class Timer:\n    n = 0\n    def __enter__(self):\n        Timer.n += 1\n    def __exit__(self, *_):\n        pass",
    ),
    "property": Hard(
        "h = h + self.shift",
        before="N = [0]",
        made="def shift(self):\n    N[0] += 1\n    return 0.5\nNet.shift = property(shift)",
    ),
    "forward hook": Hard(
        before="SEEN = []", made="model.a.register_forward_hook(lambda m, i, o: SEEN.append(o.detach()))"
    ),
    "hooks that return": Hard(
        before="SEEN = []\ndef hook(m, i, o):\n    SEEN.append(1)\n    return o * 1.5",
        made="model.a.register_forward_hook(hook)\nmodel.register_forward_pre_hook(lambda m, i: SEEN.append(2))",
    ),
    "backward hooks": Hard(
        before="SEEN = []",
        made="model.a.register_full_backward_hook(lambda m, i, o: SEEN.append(o[0].sum()))\n"
        "model.b.weight.register_hook(lambda g: SEEN.append(g.sum()))\n"
        "model.a.weight.register_post_accumulate_grad_hook(lambda p: SEEN.append(p.grad.sum()))",
        loss="(model(x).float().abs() + 0.0).sqrt().mean()",
    ),
    "tensor hook in forward": Hard(
        "h.register_hook(lambda g: SEEN.append(g.sum())) if h.requires_grad else None", before="SEEN = []"
    ),
    "global hook": Hard(
        before="SEEN = []",
        made="HANDLE = nn.modules.module.register_module_forward_hook(lambda m, i, o: SEEN.append(type(m).__name__))",
        end="HANDLE.remove()",
    ),
    "numpy draws": Hard("h = h + float(np.random.rand())"),
    "random draws": Hard("h = h * random.uniform(0.9, 1.1)\nif random.random() < 0.5:\n    h = h + 1"),
    "numpy generator": Hard("h = h + float(self.rng.normal())", init="self.rng = np.random.default_rng(3)"),
    "numpy random state": Hard("h = h + float(RNG.normal())", before="RNG = np.random.RandomState(3)"),
    "random object": Hard("h = h + RNG.random()", before="RNG = random.Random(3)"),
    "random object in a library": Hard("h = h + draw()", before="RNG = random.Random(3)\ndraw = RNG.random"),
    "torch generator": Hard(
        "h = h + torch.randn(h.shape, generator=GEN)", before="GEN = torch.Generator().manual_seed(3)"
    ),
    "shuffles": Hard("random.shuffle(ORDER)", before="ORDER = [1, 2, 3, 4, 5]"),
    "python generator": Hard("h = h + next(NUMBERS)", before="NUMBERS = (each for each in range(1000))"),
    "for over a generator": Hard(
        "for each in self.numbers:\n    h = h + each\n    break", init="self.numbers = itertools.count()"
    ),
    "list of a generator": Hard(
        "h = h + sum(itertools.islice(NUMBERS, 2))", before="NUMBERS = (each for each in range(1000))"
    ),
    "print": Hard("print('forward', tuple(h.shape), flush=True)"),
    "print to a stream": Hard("OUT.write('forward')\nprint('x', file=OUT)", before="OUT = io.StringIO()"),
    "print to a stream by name": Hard("print('x', file=OUT)", before="OUT = io.StringIO()"),
    "print by another name": Hard("SAY('x')", before="SAY = functools.partial(print, file=sys.stdout)"),
    "logging": Hard(
        "logging.getLogger('net').error('forward %s', h.shape)\nlogging.getLogger('net').log(60, 'loud')",
        before="STREAM = io.StringIO()\nlogging.getLogger('net').addHandler(logging.StreamHandler(STREAM))\n"
        "logging.getLogger('net').propagate = False",
        end="TEXT = STREAM.getvalue()\nlogging.getLogger('net').handlers.clear()",
    ),
    "warnings": Hard("warnings.warn('forward', stacklevel=1)", before="warnings.simplefilter('ignore')"),
    "weight norm": Hard(made="model.a = nn.utils.parametrizations.weight_norm(model.a)"),
    "old weight norm": Hard(before="warnings.simplefilter('ignore')", made="model.a = nn.utils.weight_norm(model.a)"),
    "spectral norm": Hard(made="model.a = nn.utils.parametrizations.spectral_norm(model.a)"),
    "old spectral norm": Hard(
        before="warnings.simplefilter('ignore')", made="model.a = nn.utils.spectral_norm(model.a)"
    ),
    "exponential average": Hard(
        made="ema = copy.deepcopy(model)\nave = torch.optim.swa_utils.AveragedModel(model)",
        after="with torch.no_grad():\n    for p, q in zip(ema.parameters(), model.parameters()):\n"
        "        p.mul_(0.9).add_(q, alpha=0.1)\nave.update_parameters(model)",
    ),
    "lazy": Hard(
        "h = self.lazy(h)",
        init="self.lazy = nn.LazyLinear(8)\nself.unused = nn.LazyLinear(3)",
        made="model(torch.zeros(2, 8))",
    ),
    "tied": Hard("h = self.a(h)", made="model.c = model.a\nmodel.b.weight = nn.Parameter(model.b.weight.data)"),
    "deepcopy": Hard(after="other = copy.deepcopy(model)\nprint(other(batch(0)).sum().item())"),
    "save": Hard(
        after="file = io.BytesIO()\ntorch.save(model, file)\nfile.seek(0)\nother = torch.load(file, weights_only=False)\n"
        "print(other(batch(0)).sum().item(), len(file.getvalue()))",
        end="del file",
    ),
    "pickle": Hard(
        after="copies = pickle.loads(pickle.dumps([model, optimizer.state_dict(), scaler, torch.nan_to_num, F.relu, torch.Tensor.item]))"
        "\nprint(copies[2].get_scale(), copies[3] is torch.nan_to_num, copies[5] is torch.Tensor.item)",
        end="del copies",
    ),
    "function": Hard(
        "h = Square.apply(h)",
        before="class Square(torch.autograd.Function):\n    calls = 0\n    @staticmethod\n    def forward(ctx, h):\n"
        "        Square.calls += 1\n        ctx.save_for_backward(h)\n        return h * h\n    @staticmethod\n"
        "    def backward(ctx, g):\n        Square.calls += 100\n        return 2 * g * ctx.saved_tensors[0]",
    ),
    "in place on inputs": Hard("x.add_(1)\nh = h + x"),
    "in place on a buffer": Hard(
        "self.mean.mul_(0.9).add_(h.detach().mean())", init="self.register_buffer('mean', torch.zeros(()))"
    ),
    "in place on a tensor": Hard("self.mean.mul_(0.9).add_(h.detach().mean())", init="self.mean = torch.zeros(())"),
    "in place in evaluation": Hard(
        "if not self.training:\n    KEPT.copy_(h.detach()[0])", before="KEPT = torch.zeros(8)"
    ),
    "in place through numpy": Hard(
        "note(h)", before="KEPT = np.zeros(3)\ndef note(h):\n    np.add(KEPT, float(h.detach().sum()), out=KEPT)"
    ),
    "inference mode": Hard(
        end="with torch.inference_mode(), torch.autocast('cpu', dtype=torch.float16):\n    out = model(batch(2))\nprint(out.sum().item())"
    ),
    "compiled": Hard(
        "h = torch.nan_to_num(h) if torch.isfinite(h).all() is None else h",
        before="import torch._dynamo\ntorch._dynamo.reset()\ntorch._dynamo.utils.counters.clear()",
        made="inner = model\nmodel = torch.compile(model, backend='eager', fullgraph=True)",
        end="print({k: dict(v) for k, v in torch._dynamo.utils.counters.items() if k in ('frames', 'stats', 'graph_break')})\n"
        "torch._dynamo.utils.counters.clear()",
    ),
    "compiled function": Hard(
        before="import torch._dynamo\ntorch._dynamo.reset()\ntorch._dynamo.utils.counters.clear()\n"
        "@torch.compile(backend='eager', fullgraph=True)\ndef norm(g):\n    return torch.isfinite(g) * torch.nan_to_num(g)",
        after="print(norm(torch.ones(3)).sum().item())",
        end="print({k: dict(v) for k, v in torch._dynamo.utils.counters.items() if k in ('frames', 'stats', 'graph_break')})\ndel norm\n"
        "torch._dynamo.utils.counters.clear()",
    ),
    "checkpoint": Hard(
        "h = torch.utils.checkpoint.checkpoint(self.inner, h, use_reentrant=False)",
        before="import torch.utils.checkpoint",
        made="def inner(h):\n    return F.dropout(torch.relu(h), 0.2)\nmodel.inner = inner",
    ),
    "old checkpoint": Hard(
        "h = torch.utils.checkpoint.checkpoint(self.inner, h, use_reentrant=True) if h.requires_grad else h",
        before="import torch.utils.checkpoint",
        made="def inner(h):\n    return F.dropout(torch.relu(h), 0.2)\nmodel.inner = inner",
    ),
    "function mode": Hard(
        before="from torch.overrides import TorchFunctionMode\nCALLS = []\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        CALLS.append(getattr(func, '__name__', ''))\n        return func(*args, **(kwargs or {}))",
        around="Mode()",
        end="print(collections.Counter(CALLS))",
    ),
    "dispatch mode": Hard(
        before="from torch.utils._python_dispatch import TorchDispatchMode\nCALLS = []\nclass Mode(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        CALLS.append(str(func))\n        return func(*args, **(kwargs or {}))",
        around="Mode()",
        end="print(collections.Counter(CALLS))",
    ),
    "function mode around the backward pass": Hard(
        before="from torch.overrides import TorchFunctionMode\nCALLS = []\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        CALLS.append(getattr(func, '__name__', ''))\n        return func(*args, **(kwargs or {}))",
        after="with Mode():\n    (loss * 0).backward(retain_graph=True)\n    (loss * 0).backward(retain_graph=True)",
        end="print(len(CALLS), torch._C._len_torch_function_stack())",
    ),
    "default device": Hard(made="torch.set_default_device('cpu')", end="torch.set_default_device(None)"),
    "tensor subclass": Hard(
        before="SEEN = []\nclass Mine(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        SEEN.append((func.__name__, func is torch.isfinite, func is torch.Tensor.item))\n"
        "        return super().__torch_function__(func, types, args, kwargs)",
        after="mine = loss.detach().clone().as_subclass(Mine)\nprint(torch.isfinite(mine).sum(), mine.item(), torch.nan_to_num(mine).item())",
        end="print(SEEN)",
    ),
    "threads": Hard(
        before="LINES = []\nEVENT = threading.Event()\ndef talk():\n    while not EVENT.wait(0.0005):\n"
        "        LINES.append(sys.stdout.write('') == 0 and sys.stdout is not None)\n"
        "        THREAD_LOG.error('x')\n"
        "        WRITTEN.append(1)\n"
        "WRITTEN, LOGGED = [], []\nclass Handler(logging.Handler):\n    def emit(self, record):\n        LOGGED.append(1)\n"
        "THREAD_LOG = logging.Logger('thread')\nTHREAD_LOG.addHandler(Handler())",
        made="thread = threading.Thread(target=talk)\nthread.start()",
        end="EVENT.set()\nthread.join()\nprint(len(WRITTEN) == len(LOGGED), all(LINES))\ndel WRITTEN, LOGGED, LINES, thread, THREAD_LOG",
    ),
    "loader with workers": Hard(
        before="class Data(torch.utils.data.Dataset):\n    def __len__(self):\n        return 28\n    def __getitem__(self, at):\n"
        "        return torch.randn(8) * (900 if at > 12 else 1) + nn.Linear(8, 8)(torch.ones(8)).detach()",
        made="loader = iter(torch.utils.data.DataLoader(Data(), 4, num_workers=1, shuffle=True, multiprocessing_context='fork'))",
        step="x = next(loader)",
        end="del loader",
    ),
    "closures": Hard(
        end="second = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)\nX = batch(2)\ncalls = []\n"
        "def closure():\n    second.zero_grad()\n    with torch.autocast('cpu', dtype=torch.float16):\n"
        "        loss = model(X).float().pow(2).mean()\n    loss.backward()\n    calls.append(loss.item())\n    return loss\n"
        "for _ in range(3):\n    print(second.step(closure).item())",
    ),
    "a traceback that is printed": Hard(
        "if h.shape[0] == 3:\n    raise ValueError('three')",
        after="try:\n    model(torch.ones(3, 8))\nexcept ValueError:\n    print(traceback.format_exc())\n"
        "    text = io.StringIO()\n    traceback.print_exc(file=text)\n    print(len(text.getvalue()), len(traceback.format_stack()))",
    ),
    "script and trace": Hard(
        before="warnings.simplefilter('ignore')\nclass Small(nn.Module):\n    def forward(self, x):\n"
        "        return torch.nan_to_num(x) * torch.isfinite(x)\nwarnings.simplefilter('error')\nwarnings.filterwarnings('ignore', category=DeprecationWarning)\nwarnings.filterwarnings('ignore', message='.*deprecated.*')",
        end="print(torch.jit.script(Small())(torch.ones(3)), torch.jit.script(Small()).code)\n"
        "print(torch.jit.trace(Small(), torch.ones(3)).code)\n"
        "with torch.no_grad():\n    print(torch.jit.trace(nn.Linear(3, 3), torch.ones(2, 3)).code)\n"
        "import torch.fx\nprint(torch.fx.symbolic_trace(Small()).code)\nwarnings.simplefilter('ignore')",
    ),
    "transforms": Hard(
        end="def f(w, x):\n    return torch.func.functional_call(model, {'b.weight': w}, (x[None],)).pow(2).mean()\n"
        "print(torch.func.vmap(torch.func.grad(f), (None, 0))(model.b.weight.detach(), torch.ones(3, 8)).sum())\n"
        "with torch.no_grad():\n    print(torch.func.vmap(model)(torch.ones(3, 2, 8) * 900).sum())\n"
        "    print(torch.func.vmap(torch.isfinite)(torch.ones(3, 1) / 0).sum())",
    ),
    "fake tensors": Hard(
        end="from torch._subclasses import FakeTensorMode\nwith FakeTensorMode(allow_non_fake_inputs=True):\n"
        "    fake = torch.randn(4, 8) * 900\n    print(tuple(model(fake).shape))\n    other = nn.Linear(8, 1)\n"
        "    sgd = torch.optim.SGD(other.parameters(), lr=0.1)\n    other(fake).sum().backward()\n    sgd.step()\n"
        "    with torch.no_grad():\n        print(tuple(other(fake).shape))\ndel fake, other, sgd",
    ),
    "cached casts": Hard(
        around="torch.autocast('cpu', dtype=torch.float16)",
        after="with torch.no_grad():\n    model.a.weight.mul_(1.01)\n    F.linear(x, model.a.weight).sum().item()\n"
        "loss = loss + F.linear(x, model.a.weight).float().pow(2).mean()",
    ),
    "a trained model with a fault of the gradients": Hard(loss="(model(x).float() * 0).sqrt().mean()"),
    "penalty": Hard(
        loss="model(x.requires_grad_()).float().pow(2).mean()",
        after="grad = torch.autograd.grad(scaler.scale(loss), x, create_graph=True)[0] / scaler.get_scale()\n"
        "loss = loss + grad.pow(2).mean()",
    ),
}
