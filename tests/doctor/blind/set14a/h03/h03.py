"""Class/text-conditional diffusion with guidance, EMA and v-prediction. Zero terminal SNR schedule."""
import copy
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Cfg:
    T: int = 40
    dim: int = 48
    vocab: int = 12
    length: int = 4
    batch: int = 48
    steps: int = 220
    ema: float = 0.97
    drop: float = 0.15
    guidance: float = 2.0


class Attn(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.heads, self.q, self.kv, self.o = heads, nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        nn.init.zeros_(self.o.weight)

    def forward(self, x, ctx, keep):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(ctx).view(b, ctx.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))[:, None, None]
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.dim
        self.inp, self.pos = nn.Linear(4, d), nn.Parameter(torch.randn(16, d) * 0.02)
        self.time = nn.Embedding(cfg.T, d)
        self.tok, self.null = nn.Embedding(cfg.vocab, d), nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.attn, self.n1, self.n2 = Attn(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.out = nn.Linear(d, 4)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, t, tokens, keep):
        patches = x.view(-1, 4, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(-1, 16, 4)
        h = self.inp(patches) + self.pos + self.time(t)[:, None]
        ctx = torch.cat([self.null.expand(len(x), -1, -1), self.tok(tokens)], 1)
        keep = torch.cat([torch.ones(len(x), 1, dtype=torch.bool), keep], 1)
        h = h + self.mix(h.transpose(1, 2)).transpose(1, 2)
        h = h + self.attn(self.n1(h), ctx, keep)
        h = h + self.mlp(self.n2(h))
        return self.out(h).view(-1, 4, 4, 2, 2).permute(0, 1, 3, 2, 4).reshape(-1, 8, 8)


def schedule(T):
    s = torch.cumprod(1 - torch.linspace(1e-3, 0.15, T), 0).sqrt()
    return ((s - s[-1]) * s[0] / (s[0] - s[-1])).square()


class Task:
    def __init__(self, cfg):
        self.cfg, self.proto = cfg, torch.randn(cfg.vocab, 8, 8).sign() * 0.6

    def batch(self, n):
        tok = torch.randint(0, self.cfg.vocab, (n, self.cfg.length))
        keep = torch.arange(self.cfg.length) < torch.randint(1, self.cfg.length + 1, (n, 1))
        return (self.proto[tok] * keep[..., None, None]).sum(1).clamp(-1, 1), tok, keep


@torch.no_grad()
def sample(model, abar, tok, keep, cfg):
    x = torch.randn(len(tok), 8, 8)
    none = torch.zeros_like(keep)
    for i in reversed(range(cfg.T)):
        t = torch.full((len(tok),), i)
        v = model(x, t, tok, none) * (1 - cfg.guidance) + model(x, t, tok, keep) * cfg.guidance
        a = abar[i]
        x0 = (a.sqrt() * x - (1 - a).sqrt() * v).clamp(-1, 1)
        eps = (x - a.sqrt() * x0) / (1 - a).sqrt()
        prev = abar[i - 1] if i else torch.tensor(1.0)
        x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
    return x


def main():
    cfg = Cfg()
    torch.manual_seed(23)
    task, model = Task(cfg), Model(cfg)
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    abar = schedule(cfg.T)
    print(f"snr from {(abar / (1 - abar))[0]:.1f} to {(abar / (1 - abar))[-1]:.1f}, log snr at the end {torch.log(abar[-1]):.1f}")
    for step in range(cfg.steps):
        x0, tok, keep = task.batch(cfg.batch)
        keep = keep & (torch.rand(cfg.batch, 1) >= cfg.drop)
        t, eps = torch.randint(0, cfg.T, (cfg.batch,)), torch.randn_like(x0)
        a = abar[t].view(-1, 1, 1)
        v = a.sqrt() * eps - (1 - a).sqrt() * x0
        loss = (model(a.sqrt() * x0 + (1 - a).sqrt() * eps, t, tok, keep) - v).square().sum((1, 2)).mean()
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        opt.step()
        torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - cfg.ema)
        if step % 40 == 0 or step == cfg.steps - 1:
            x, tok, keep = task.batch(32)
            print(f"step {step:3d} loss {loss.item():.2f} norm {norm:.1f} sample error {F.mse_loss(sample(ema, abar, tok, keep, cfg), x):.4f}")


if __name__ == "__main__":
    main()
