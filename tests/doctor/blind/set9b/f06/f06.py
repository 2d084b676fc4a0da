import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from corpus import Collate, ReviewCorpus
from encoder import ReviewEncoder


def get_args():
    p = argparse.ArgumentParser("sentiment")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--word-dropout", type=float, default=0.3)
    p.add_argument("--seed", type=int, default=13)
    return p.parse_args()


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, value, n):
        self.total += value * n
        self.n += n

    @property
    def mean(self):
        return self.total / max(self.n, 1)


def train(model, loader, optimizer, criterion):
    model.train()
    loss_meter, acc_meter = Meter(), Meter()
    for tokens, keep, labels in loader:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            logits = model(tokens, keep)
            loss = criterion(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss_meter.add(loss.item(), len(labels))
        acc_meter.add((logits.argmax(-1) == labels).float().mean().item(), len(labels))
    return loss_meter.mean, acc_meter.mean


@torch.inference_mode()
def test(model, loader):
    model.eval()
    acc = Meter()
    for tokens, keep, labels in loader:
        pred = model(tokens, keep).argmax(-1)
        acc.add((pred == labels).float().mean().item(), len(labels))
    return acc.mean


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    train_set = ReviewCorpus(320, seed=args.seed)
    test_set = ReviewCorpus(96, seed=args.seed + 1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True,
                              collate_fn=Collate(args.word_dropout, args.seed))
    test_loader = DataLoader(test_set, 32, collate_fn=Collate(0.0, args.seed))
    model = ReviewEncoder(train_set.vocab_size, args.dim, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        loss, acc = train(model, train_loader, optimizer, criterion)
        print(f"epoch {epoch} loss {loss:.4f} acc {acc:.3f} test acc {test(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
