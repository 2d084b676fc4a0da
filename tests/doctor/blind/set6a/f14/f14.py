"""GRU tagger. Mixed precision is switched on with --amp (default)."""
import argparse
import time

import torch
import torch.nn as nn


class Tagger(nn.Module):
    def __init__(self, vocab=60, tags=7, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(torch.tanh(self.hidden(h)))


def sentences(n, seed=0, length=14):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 60, (n, length), generator=g)
    tags = (ids + torch.roll(ids, 1, dims=1) // 20) % 7
    return ids, tags


def train_one_epoch(model, criterion, optimizer, data, batch_size, amp):
    ids, tags = data
    logged = None
    total = 0.0
    for i in range(0, len(ids), batch_size):
        x, y = ids[i:i + batch_size], tags[i:i + batch_size]
        outputs = model(x)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = criterion(outputs.transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        logged = outputs.dtype
    return total / (len(ids) // batch_size), logged


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--epochs", type=int, default=5)
    args = p.parse_args()
    torch.manual_seed(0)
    model = Tagger()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    data = sentences(640)
    for e in range(args.epochs):
        t = time.time()
        loss, dtype = train_one_epoch(model, criterion, optimizer, data, 64, args.amp)
        print(f"epoch {e} loss {loss:.4f} outputs {dtype} amp={args.amp} {time.time() - t:.2f}s")


if __name__ == "__main__":
    main()
