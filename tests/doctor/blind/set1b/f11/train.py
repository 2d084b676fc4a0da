import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class CharGRU(nn.Module):
    """Small recurrent language model with a hand written cell."""

    def __init__(self, vocab, dim=64):
        super().__init__()
        self.dim = dim
        self.emb = nn.Embedding(vocab, dim)
        self.xz, self.hz = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim, bias=False)
        self.xn, self.hn = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.emb(ids)
        h = x.new_zeros(ids.shape[0], self.dim)
        ys = []
        for t in range(ids.shape[1]):
            z, r = torch.sigmoid(self.xz(x[:, t]) + self.hz(h)).chunk(2, -1)
            n = torch.tanh(self.xn(x[:, t]) + r * self.hn(h))
            h = (1 - z) * n + z * h
            ys.append(h)
        return self.out(torch.stack(ys, 1))


TEXT = (
    "the quick brown fox jumps over the lazy dog while the slow green turtle walks under the old stone bridge "
    "and a small grey mouse looks at the moon above the quiet river near the mill "
) * 12


def get_batch(data, batch, length, gen):
    i = torch.randint(0, len(data) - length - 1, (batch,), generator=gen)
    x = torch.stack([data[k:k + length] for k in i])
    y = torch.stack([data[k + 1:k + length + 1] for k in i])
    return x, y


def fit(model, data, args):
    gen = torch.Generator().manual_seed(args.seed)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        for it in range(args.iters):
            x, y = get_batch(data, args.batch, args.length, gen)
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            if it % 15 == 0:
                print(f"iter {it:4d}: loss {loss.item():.4f}")


@torch.no_grad()
def bits_per_char(model, data, args):
    gen = torch.Generator().manual_seed(123)
    x, y = get_batch(data, 64, args.length, gen)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() / 0.6931


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=120)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--length", type=int, default=24)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    chars = sorted(set(TEXT))
    data = torch.tensor([chars.index(c) for c in TEXT])
    model = CharGRU(len(chars))
    fit(model, data, args)
    print(f"bits per character: {bits_per_char(model, data, args):.3f}")


if __name__ == "__main__":
    main()
