import argparse
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Reviews(Dataset):
    def __init__(self, n, vocab=200, seed=0):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            label = rng.randint(0, 1)
            length = rng.randint(5, 20)
            lo, hi = (1, 120) if label == 0 else (80, vocab - 1)
            self.rows.append(([rng.randint(lo, hi) for _ in range(length)], label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    width = max(len(r[0]) for r in rows)
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    for i, (tokens, _) in enumerate(rows):
        ids[i, : len(tokens)] = torch.tensor(tokens)
    return ids, torch.tensor([r[1] for r in rows], dtype=torch.float32)


class Classifier(nn.Module):
    def __init__(self, vocab=200, dim=32, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        lengths = (ids != PAD).sum(1)
        last = h[torch.arange(len(ids)), lengths - 1]
        return self.fc(self.drop(last)).squeeze(-1)

    @torch.no_grad()
    def project(self):
        w = self.emb.weight
        w.div_(w.norm(dim=1, keepdim=True))


class Runner:
    def __init__(self, args):
        self.args = args
        self.model = Classifier()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu")
        self.crit = nn.BCEWithLogitsLoss()

    def step(self, ids, y):
        self.opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.crit(self.model(ids), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.model.project()
        return loss.item()

    def run(self):
        loader = DataLoader(Reviews(400), self.args.batch_size, shuffle=True, collate_fn=collate)
        test = DataLoader(Reviews(100, seed=1), 50, collate_fn=collate)
        for epoch in range(self.args.epochs):
            self.model.train()
            losses = [self.step(ids, y) for ids, y in loader]
            self.model.eval()
            hit = 0
            with torch.inference_mode():
                for ids, y in test:
                    hit += ((self.model(ids) > 0).float() == y).sum().item()
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} test acc {hit / 100:.2f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=20)
    ap.add_argument("--lr", type=float, default=3e-3)
    a = ap.parse_args()
    torch.manual_seed(0)
    Runner(a).run()
