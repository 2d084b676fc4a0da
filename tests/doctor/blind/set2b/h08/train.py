import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from align import dtw, viterbi


class Acoustic(nn.Module):
    def __init__(self, d=48, n=9):
        super().__init__()
        self.inp = nn.Conv1d(10, d, 3, padding=1)
        self.mid = nn.Sequential(nn.Conv1d(d, d, 3, padding=1), nn.GELU(), nn.Conv1d(d, d, 3, padding=1))
        self.out = nn.Conv1d(d, n, 1)

    def forward(self, x):
        h = self.inp(x.transpose(1, 2))
        h = h + checkpoint(self.mid, h, use_reentrant=False)
        return self.out(h).transpose(1, 2)


def utterance(g, proto, n_tok=5):
    tok = torch.randint(0, 9, (n_tok,), generator=g)
    dur = torch.randint(3, 8, (n_tok,), generator=g)
    lab = tok.repeat_interleave(dur)
    return proto[lab] + 0.8 * torch.randn(len(lab), 10, generator=g), tok, lab


def batch(g, proto, n=8):
    items = [utterance(g, proto) for _ in range(n)]
    t = max(len(i[0]) for i in items)
    x, seg = torch.zeros(n, t, 10), torch.full((n, t), -100)
    for k, (f, tok, _) in enumerate(items):
        x[k, :len(f)] = f
    return x, seg, items


def realign(model, x, seg, items, uniform):
    if not uniform:
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
            logp = F.log_softmax(model(x), -1).float()
    for k, (f, tok, _) in enumerate(items):
        if uniform:
            idx = torch.arange(len(f)) * len(tok) // len(f)
        else:
            idx = viterbi(logp[k, :len(f)].clone(), tok)
        seg[k, :len(f)] = tok[idx]


def train(model, opt, scaler, g, proto, steps, uniform):
    for i in range(steps):
        x, seg, items = batch(g, proto)
        realign(model, x, seg, items, uniform)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x).flatten(0, 1), seg.flatten(), ignore_index=-100)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if i % 10 == 0:
            true = torch.cat([it[2] for it in items])
            mine = seg[seg >= 0]
            print(f"  {i:3d} loss {loss.item():.4f} alignment {(true == mine).float().mean():.3f} scale {scaler.get_scale():g}")


def fresh(lr):
    torch.manual_seed(0)
    m = Acoustic()
    return m, torch.optim.AdamW(m.parameters(), lr=lr), torch.amp.GradScaler("cpu", growth_interval=15)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--lr", type=float, default=3e-3)
    a = p.parse_args()
    g = torch.Generator().manual_seed(1)
    proto = torch.randn(9, 10, generator=g)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "flat.pt")
        model, opt, scaler = fresh(a.lr)
        print("flat start")
        train(model, opt, scaler, g, proto, a.steps, uniform=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "scaler": scaler.state_dict()}, path)
        model, opt, scaler = fresh(a.lr)
        ck = torch.load(path)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        scaler.load_state_dict(ck["scaler"])
    print("realigned")
    train(model, opt, scaler, g, proto, a.steps, uniform=False)
    one, two = utterance(g, proto)[0], utterance(g, proto)[0]
    with torch.inference_mode():
        print("dtw between two utterances", round(dtw(model(one[None])[0], model(two[None])[0]), 3))


if __name__ == "__main__":
    main()
