"""Next-delay prediction on a stream of tram arrivals, written with plain functions and a dict of tensors."""
import math
from functools import partial, reduce

import torch
import torch.nn.functional as F

SEED, STEPS, BATCH, LINES = 11, 60, 64, 12


def make_day(gen, n=STEPS * BATCH):
    """One operating day, in order: seconds since 04:00, line number, stop index, delay in minutes."""
    second = torch.sort(torch.rand(n, generator=gen) * 20 * 3600).values
    line = torch.randint(0, LINES, (n,), generator=gen)
    stop = torch.randint(0, 30, (n,), generator=gen).float()
    rush = torch.exp(-((second / 3600 - 4.5) ** 2)) + torch.exp(-((second / 3600 - 13.0) ** 2))
    delay = 1.0 + 3.0 * rush + 0.05 * stop + 0.2 * line.float() + 0.3 * torch.randn(n, generator=gen)
    return dict(second=second, line=line, stop=stop, delay=delay)


def minibatches(day, size):
    n = len(day["delay"])
    for i in range(0, n - size + 1, size):
        yield {k: v[i:i + size] for k, v in day.items()}


def init(gen):
    def lin(i, o, scale=1.0):
        return (torch.randn(o, i, generator=gen) * scale / math.sqrt(i)).requires_grad_(), torch.zeros(o, requires_grad=True)

    p = {}
    p["line"] = (torch.randn(LINES, 8, generator=gen) * 0.1).requires_grad_()
    p["clock.w"], p["clock.b"] = lin(1, 16, 1e-4)
    p["fc1.w"], p["fc1.b"] = lin(8 + 16 + 1, 48)
    p["fc2.w"], p["fc2.b"] = lin(48, 48)
    p["out.w"], p["out.b"] = lin(48, 1)
    return p


def dense(p, name, x, act=None):
    y = F.linear(x, p[name + ".w"], p[name + ".b"])
    return act(y) if act else y


def predict(p, batch):
    clock = dense(p, "clock", batch["second"][:, None], torch.sin)
    features = [F.embedding(batch["line"], p["line"]), clock, batch["stop"][:, None] / 30]
    layers = [partial(dense, p, "fc1", act=F.gelu), partial(dense, p, "fc2", act=F.gelu), partial(dense, p, "out")]
    return reduce(lambda h, f: f(h), layers, torch.cat(features, dim=1)).squeeze(1)


def trainer(p, lr):
    opt = torch.optim.AdamW(p.values(), lr=lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=lr, total_steps=STEPS)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 5)

    def step(batch):
        opt.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            loss = F.smooth_l1_loss(predict(p, batch), batch["delay"])
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(list(p.values()), 5.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        return loss.detach()

    return step


if __name__ == "__main__":
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    day = make_day(gen)
    step = trainer(init(gen), lr=3e-3)
    history = []
    for i, batch in enumerate(minibatches(day, BATCH)):
        history.append(step(batch).item())
        if i % 5 == 4:
            print(f"[{batch['second'][-1] / 3600 + 4:5.2f} h] batch {i + 1:2d}  loss {sum(history[-5:]) / 5:.4f}")
    assert math.isfinite(history[-1]), f"last loss was {history[-1]}"
