"""Masked-token pretraining of a tiny transformer encoder."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MASK, VOCAB = 0, 24


class Cycles(Dataset):
    """Each row walks through the alphabet with a fixed stride."""

    def __init__(self, n, length, seed):
        g = torch.Generator().manual_seed(seed)
        first = torch.randint(1, VOCAB, (n, 1), generator=g)
        stride = torch.randint(1, 4, (n, 1), generator=g)
        self.tokens = (first - 1 + stride * torch.arange(length)) % (VOCAB - 1) + 1
        self.hide = torch.rand(n, length, generator=g) < 0.2
        self.hide[:, 0] |= ~self.hide.any(1)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i].masked_fill(self.hide[i], MASK), self.tokens[i], self.hide[i]


class Encoder(nn.Module):
    def __init__(self, length, dim, heads, depth):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, tokens):
        return self.out(self.blocks(self.embed(tokens) + self.pos))


class Pretrainer:
    def __init__(self, args):
        self.model = Encoder(args.length, args.dim, 4, args.depth)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, args.epochs)
        self.scaler = torch.amp.GradScaler("cpu")
        self.loader = DataLoader(Cycles(args.rows, args.length, 1), args.batch, shuffle=True)
        self.heldout = DataLoader(Cycles(128, args.length, 2), args.batch)

    def loss(self, batch):
        masked, tokens, hide = batch
        logits = self.model(masked)
        return F.cross_entropy(logits[hide], tokens[hide])

    def step(self, batch):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def epoch(self):
        self.model.train()
        history = []
        with torch.autocast("cpu", dtype=torch.float16):
            for batch in self.loader:
                history.append(self.step(batch))
        self.sched.step()
        return history

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        with torch.autocast("cpu", dtype=torch.float16):
            values = [self.loss(b).item() for b in self.heldout]
        return sum(values) / len(values)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--rows", type=int, default=512)
    ap.add_argument("--length", type=int, default=12)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    trainer = Pretrainer(args)
    for e in range(args.epochs):
        h = trainer.epoch()
        print(f"epoch {e}: first {h[0]:.3f} last {h[-1]:.3f} heldout {trainer.validate():.3f}")
