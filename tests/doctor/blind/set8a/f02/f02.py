import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split

from data import LedgerWindows
from model import PriceMixer


class Trainer:
    def __init__(self, model, args):
        self.model = model
        self.args = args
        self.opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16, enabled=not self.args.no_amp)

    def fit(self, train, val):
        for epoch in range(self.args.epochs):
            t0, losses = time.time(), []
            self.model.train()
            for x, y in train:
                with self.autocast():
                    loss = F.mse_loss(self.model(x).float(), y)
                self.opt.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.opt)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.opt)
                self.scaler.update()
                losses.append(loss.item())
            print(f"epoch {epoch}: train {sum(losses) / len(losses):.4f} val {self.validate(val):.4f} ({time.time() - t0:.1f}s)")

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        tot = n = 0
        for x, y in loader:
            with self.autocast():
                pred = self.model(x)
            tot += F.mse_loss(pred.float(), y, reduction="sum").item()
            n += y.numel()
        return tot / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    ds = LedgerWindows()
    tr, va = random_split(ds, [500, 100], generator=torch.Generator().manual_seed(0))
    trainer = Trainer(PriceMixer(10), args)
    trainer.fit(DataLoader(tr, 50, shuffle=True), DataLoader(va, 100))


if __name__ == "__main__":
    main()
