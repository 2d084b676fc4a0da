"""Prompt-style tuning of a frozen encoder; stops halfway and resumes from disk."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Frozen(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.requires_grad_(False)


class Tuned(nn.Module):
    def __init__(self, base, dim, prompts, classes):
        super().__init__()
        self.base = base
        self.prompt = nn.Parameter(0.3 * torch.randn(prompts, dim))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, tokens):
        e = self.base.embed(tokens)
        p = self.prompt.expand(len(tokens), -1, -1).to(e.dtype)
        pad = torch.cat([torch.zeros(p.shape[:2], dtype=torch.bool), tokens == 0], 1)
        h = self.base.enc(torch.cat([p, e], 1), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1)
        return self.head(self.norm((h * keep).sum(1) / keep.sum(1)))


def toy_text(n, vocab, length, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=g)
    x = torch.randint(3, vocab, (n, length), generator=g)
    mark = torch.rand(n, length, generator=g) < 0.4
    x = torch.where(mark, y[:, None] + 1, x)
    size = torch.randint(length // 2, length + 1, (n, 1), generator=g)
    return TensorDataset(x * (torch.arange(length) < size), y)


def build(args):
    torch.manual_seed(args.seed)
    model = Tuned(Frozen(30, args.dim, 2), args.dim, 4, 2)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=30)
    return model, opt, sched, scaler


def run(model, opt, sched, scaler, loader, first, last, accumulate):
    for epoch in range(first, last):
        model.train()
        total = 0.0
        opt.zero_grad(set_to_none=True)
        for i, (x, y) in enumerate(loader, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss / accumulate).backward()
            total += loss.item()
            if i % accumulate == 0 or i == len(loader):
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
        sched.step()
        print(f"epoch {epoch} loss {total / len(loader):.4f} scale {scaler.get_scale():g}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    loader = DataLoader(toy_text(384, 30, 12, 1), args.batch, shuffle=True)
    half = args.epochs // 2
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        parts = build(args)
        run(*parts, loader, 0, half, args.accumulate)
        names = ["model", "opt", "sched", "scaler"]
        torch.save({n: p.state_dict() for n, p in zip(names, parts)}, path)
        parts = build(args)
        saved = torch.load(path, weights_only=True)
        for n, p in zip(names, parts):
            p.load_state_dict(saved[n])
        print(f"resumed at epoch {half}, scale {parts[3].get_scale():g}")
        run(*parts, loader, half, args.epochs, args.accumulate)


if __name__ == "__main__":
    main()
