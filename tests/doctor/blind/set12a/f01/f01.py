"""Keyword spotting on log-mel frames with a linear-complexity attention encoder."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--frames", type=int, default=512)
    p.add_argument("--mels", type=int, default=20)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def make_batch(args, gen):
    """dB-valued frames (floor at -80 dB); the class shows as a band that is louder."""
    y = torch.randint(0, 4, (args.batch,), generator=gen)
    x = -60 + 6 * torch.randn(args.batch, args.frames, args.mels, generator=gen)
    for i, c in enumerate(y.tolist()):
        x[i, :, 5 * c:5 * c + 5] += 25
    return x.clamp(-80, 0), y


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = q.softmax(-1), F.elu(k) + 1
        kv = torch.matmul(k.transpose(-1, -2), v)
        z = k.mean(dim=-2, keepdim=True) * n
        num = torch.matmul(q, kv)
        den = (q.float() * z.float()).sum(-1, keepdim=True) + 1e-6
        o = num.float() / den
        return self.out(o.transpose(1, 2).reshape(b, n, d))


class Encoder(nn.Module):
    def __init__(self, mels, dim, classes=4):
        super().__init__()
        self.inp = nn.Linear(mels, dim)
        self.att = LinearAttention(dim)
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.inp(x)
        h = self.norm(h + self.att(h))
        h = h + self.ff(h)
        return self.head(h.mean(1))


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    model = Encoder(args.mels, args.dim)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(args.steps):
        x, y = make_batch(args, gen)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            loss = F.cross_entropy(logits.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 5 == 0 or step == args.steps - 1:
            acc = (logits.argmax(-1) == y).float().mean()
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc.item():.2f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
