"""Contrastive training of short-text embeddings."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from encoder import PAD, BagEncoder


class Pairs(Dataset):
    """Two texts about the same topic."""

    def __init__(self, n, topics=30, words_per_topic=12, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.per = words_per_topic
        self.vocab = topics * words_per_topic + 1
        self.topic = torch.randint(topics, (n,), generator=self.g)

    def __len__(self):
        return len(self.topic)

    def text(self, topic):
        n = int(torch.randint(3, 9, (1,), generator=self.g))
        return topic * self.per + 1 + torch.randint(self.per, (n,), generator=self.g)

    def __getitem__(self, i):
        t = int(self.topic[i])
        return self.text(t), self.text(t), t


def collate(items):
    a, b, t = zip(*items)
    pad = lambda seqs: nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return pad(a), pad(b), torch.tensor(t)


class InfoNCE(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b, topic):
        a, b = F.normalize(a.float(), dim=-1), F.normalize(b.float(), dim=-1)
        sim = a @ b.t() / self.temperature
        same = (topic[:, None] == topic[None, :]).float()
        target = same / same.sum(1, keepdim=True)
        return -(target * F.log_softmax(sim.float(), -1)).sum(1).mean()


def recall(model, loader):
    model.eval()
    hits, n = 0, 0
    with torch.no_grad():
        for a, b, t in loader:
            za, zb = F.normalize(model(a), dim=-1), F.normalize(model(b), dim=-1)
            hits += (t[(za @ zb.t()).argmax(1)] == t).sum().item()
            n += len(t)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--tau", type=float, default=0.1)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    data = Pairs(1536)
    train = DataLoader(data, 64, shuffle=True, collate_fn=collate)
    val = DataLoader(Pairs(384, seed=5), 64, collate_fn=collate)
    model = BagEncoder(data.vocab, args.dim, 24)
    criterion = InfoNCE(args.tau)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for a, b, topic in train:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = criterion(model(a), model(b), topic)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            running += loss.item()
        model.to_sphere()
        print(f"epoch {epoch} loss {running / len(train):.4f} recall@1 {recall(model, val):.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
