"""Graph classification that is stopped half-way and taken up again."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset):
    """Rings and stars with noisy node features."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            k = int(torch.randint(5, 12, (1,), generator=g))
            y = int(torch.randint(2, (1,), generator=g))
            a = torch.zeros(k, k)
            for i in range(k):
                j = (i + 1) % k if y == 0 else 0
                if i != j:
                    a[i, j] = a[j, i] = 1
            self.items.append((torch.randn(k, 4, generator=g) * 0.3 + 1, a, y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def merge(batch):
    x = torch.cat([b[0] for b in batch])
    a = torch.block_diag(*[b[1] for b in batch])
    owner = torch.repeat_interleave(torch.arange(len(batch)), torch.tensor([len(b[0]) for b in batch]))
    return x, a, owner, torch.tensor([b[2] for b in batch])


class GIN(nn.Module):
    def __init__(self, feats=4, dim=32, layers=3):
        super().__init__()
        dims = [feats] + [dim] * layers
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(i, dim), nn.ReLU(), nn.Linear(dim, o)) for i, o in zip(dims, dims[1:]))
        self.head = nn.Linear(dim, 2)

    def forward(self, x, a, owner, graphs):
        for mlp in self.mlps:
            x = F.relu(mlp(x + a @ x))
        pooled = torch.zeros(graphs, x.size(-1)).index_add_(0, owner, x.float())
        count = torch.bincount(owner, minlength=graphs).clamp(min=1)
        return self.head(pooled / count[:, None])


class Trainer:
    def __init__(self, lr, total):
        self.net = GIN()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, total)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20, growth_interval=150)
        self.done = 0
        self.skips = 0

    def parts(self):
        return {"net": self.net, "opt": self.opt, "sched": self.sched, "scaler": self.scaler}

    def save(self, path):
        torch.save({**{k: v.state_dict() for k, v in self.parts().items()}, "done": self.done}, path)

    def load(self, path):
        state = torch.load(path)
        for k, v in self.parts().items():
            v.load_state_dict(state[k])
        self.done = state["done"]

    def epoch(self, loader):
        total = 0.0
        for x, a, owner, y in loader:
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.net(x, a, owner, len(y)), y)
            self.scaler.scale(loss).backward()
            scale = self.scaler.get_scale()
            self.scaler.step(self.opt)
            self.scaler.update()
            if self.scaler.get_scale() < scale:
                self.skips += 1
            else:
                self.sched.step()
            total += loss.item()
        self.done += 1
        print(f"epoch {self.done} loss {total / len(loader):.4f} scale {self.scaler.get_scale():g} skipped {self.skips}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--first", type=int, default=4)
    p.add_argument("--second", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Graphs(640, 1), 16, shuffle=True, collate_fn=merge)
    total = (args.first + args.second) * len(loader)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pt")
        trainer = Trainer(args.lr, total)
        for _ in range(args.first):
            trainer.epoch(loader)
        trainer.save(path)
        del trainer
        trainer = Trainer(args.lr, total)
        trainer.load(path)
        print("resumed")
        for _ in range(args.second):
            trainer.epoch(loader)


if __name__ == "__main__":
    main()
