import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from graphs import MoleculeGraphs, collate_graphs
from layers import GatedGraphNet


class Runner:
    def __init__(self, args):
        self.args = args
        self.model = GatedGraphNet(in_dim=12, hidden=args.hidden, depth=args.depth)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-4)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        self.criterion = nn.SmoothL1Loss()
        train = MoleculeGraphs(args.graphs, seed=args.seed)
        valid = MoleculeGraphs(args.graphs // 4, seed=args.seed + 1)
        self.loaders = {
            "train": DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate_graphs),
            "valid": DataLoader(valid, args.batch_size, collate_fn=collate_graphs),
        }
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=args.epochs)

    def forward(self, batch):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(batch["x"], batch["src"], batch["dst"], batch["graph"], batch["num_graphs"])
            return self.criterion(pred.squeeze(-1), batch["y"])

    def train_epoch(self):
        self.model.train()
        total, count = 0.0, 0
        for batch in self.loaders["train"]:
            self.opt.zero_grad(set_to_none=True)
            loss = self.forward(batch)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
            self.scaler.step(self.opt)
            self.scaler.update()
            total += loss.item()
            count += 1
        return total / count

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.forward(b).item() for b in self.loaders["valid"]]
        return sum(losses) / len(losses)

    def run(self):
        for epoch in range(self.args.epochs):
            train_loss = self.train_epoch()
            valid_loss = self.validate()
            self.sched.step()
            print(f"epoch {epoch}: train {train_loss:.4f} valid {valid_loss:.4f} "
                  f"lr {self.sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--graphs", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    Runner(args).run()
