"""Sleep stage classification from raw multichannel EEG epochs (values in microvolt)."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        inv = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * inv * self.weight


class Mixer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.pre = RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.post = RMSNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.pre(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.post(x))


class Stager(nn.Module):
    def __init__(self, channels, patch, dim=16, heads=2, depth=1, stages=4):
        super().__init__()
        self.patchify = nn.Conv1d(channels, dim, patch, stride=patch)
        self.blocks = nn.ModuleList(Mixer(dim, heads) for _ in range(depth))
        self.final = RMSNorm(dim)
        self.head = nn.Linear(dim, stages)

    def forward(self, eeg):
        x = self.patchify(eeg).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x).mean(1))


def synth(n, channels, length, gen):
    stage = torch.randint(0, 4, (n,), generator=gen)
    t = torch.arange(length) / 100.0
    freq = torch.tensor([2.0, 5.0, 11.0, 19.0])[stage] + 0.2 * torch.randn(n, generator=gen)
    phase = 1.2 * torch.rand(n, channels, generator=gen)
    wave = torch.sin(6.2832 * freq[:, None, None] * t + phase[:, :, None])
    drift = 150.0 * torch.randn(n, channels, 1, generator=gen)
    return drift + 2400.0 * wave + 60.0 * torch.randn(n, channels, length, generator=gen), stage


class Trainer:
    def __init__(self, args):
        self.args = args
        self.gen = torch.Generator().manual_seed(args.seed)
        self.net = Stager(2, 10)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, args.steps)
        self.scaler = torch.amp.GradScaler("cpu")

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16, enabled=not self.args.fp32)

    def step(self):
        x, y = synth(self.args.batch, 2, 100, self.gen)
        with self.autocast():
            logits = self.net(x)
            loss = F.cross_entropy(logits, y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        return loss.item(), norm.item()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        x, y = synth(128, 2, 100, self.gen)
        with self.autocast():
            hit = self.net(x).argmax(1) == y
        self.net.train()
        return hit.float().mean().item()

    def run(self):
        for i in range(self.args.steps):
            loss, norm = self.step()
            if i % 20 == 19:
                print(f"step {i + 1:3d} loss {loss:.4f} grad {norm:.3f} acc {self.evaluate():.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--fp32", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    Trainer(args).run()


if __name__ == "__main__":
    main()
