import argparse

import torch
from torch.utils.data import DataLoader, Dataset

from engine import mrr, train_epoch
from modules import NewsRec

VOCAB, TITLE, HIST, NEG = 300, 6, 12, 4


class Impressions(Dataset):
    """Impression log: click history up to the impression, one positive and some negatives.

    `lookback` cuts the history to the last days before the impression.
    """

    def __init__(self, n, seed, lookback=7.0):
        g = torch.Generator().manual_seed(seed)
        topics = torch.randint(0, 6, (n,), generator=g)
        self.rows = []
        for t in topics.tolist():
            m = int(torch.randint(3, HIST + 1, (1,), generator=g))
            ages = torch.rand(m, generator=g) * 12
            ages = ages[ages <= lookback][:HIST]
            hist = torch.zeros(HIST, TITLE, dtype=torch.long)
            valid = torch.zeros(HIST, dtype=torch.bool)
            for j in range(len(ages)):
                hist[j] = self.title(t, g)
                valid[j] = True
            cand = torch.stack([self.title((t + 1 + int(torch.randint(0, 5, (1,), generator=g))) % 6, g)
                                for _ in range(NEG + 1)])
            label = int(torch.randint(0, NEG + 1, (1,), generator=g))
            cand[label] = self.title(t, g)
            self.rows.append((hist, valid, cand, label))

    @staticmethod
    def title(topic, g):
        return topic * 50 + torch.randint(0, 50, (TITLE,), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lookback", type=float, default=7.0)
    ap.add_argument("--fp32", action="store_true")
    a = ap.parse_args()

    torch.manual_seed(1)
    train = DataLoader(Impressions(600, 1, a.lookback), batch_size=20, shuffle=True,
                       generator=torch.Generator().manual_seed(6))
    dev = DataLoader(Impressions(80, 2, a.lookback), batch_size=40)
    model = NewsRec(VOCAB)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 11, enabled=not a.fp32)
    for ep in range(a.epochs):
        train_epoch(model, train, opt, scaler, ep)
        print(f"epoch {ep} dev mrr {mrr(model, dev):.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
