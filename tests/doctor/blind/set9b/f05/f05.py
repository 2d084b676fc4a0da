import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class PatchEncoder(nn.Module):
    def __init__(self, dim=32, depth=2, heads=4):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, 16, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, x):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        return self.blocks(tokens + self.pos).mean(dim=1)


class Classifier(nn.Module):
    def __init__(self, num_classes, dim=32):
        super().__init__()
        self.encoder = PatchEncoder(dim)
        self.head = nn.Linear(dim, num_classes)

    def reset_classifier(self, num_classes):
        self.head = nn.Linear(self.head.in_features, num_classes)

    def forward(self, x):
        return self.head(self.encoder(x))


class Glyphs(Dataset):
    def __init__(self, classes, per_class, seed):
        gen = torch.Generator().manual_seed(classes)
        protos = torch.randn(classes, 1, 16, 16, generator=gen)
        gen.manual_seed(seed)
        self.y = torch.arange(classes).repeat_interleave(per_class)
        self.x = protos[self.y] + 0.7 * torch.randn(len(self.y), 1, 16, 16, generator=gen)
        self.num_classes = classes

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Classifier(cfg["model"]["num_classes"])
        if cfg["train"]["linear_probe"]:
            self.model.encoder.requires_grad_(False)
        self.optimizer = self.build_optimizer()
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=cfg["train"]["lr"], total_steps=cfg["train"]["total_steps"])

    def build_optimizer(self):
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        decay = [p for p in trainable if p.ndim > 1]
        rest = [p for p in trainable if p.ndim <= 1]
        return torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                                 lr=self.cfg["train"]["lr"])

    def prepare(self, dataset):
        if dataset.num_classes != self.model.head.out_features:
            print(f"classifier: {self.model.head.out_features} -> {dataset.num_classes} classes")
            self.model.reset_classifier(dataset.num_classes)
        return DataLoader(dataset, self.cfg["train"]["batch_size"], shuffle=True, drop_last=True)

    def fit(self, dataset, epochs):
        loader = self.prepare(dataset)
        for epoch in range(epochs):
            loss_sum, hits, count = 0.0, 0, 0
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = self.model(x)
                    loss = F.cross_entropy(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                loss_sum += loss.item() * len(y)
                hits += (logits.argmax(-1) == y).sum().item()
                count += len(y)
            print(f"epoch {epoch} loss {loss_sum / count:.4f} acc {hits / count:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--lr", type=float, default=2e-2)
    args = parser.parse_args()
    torch.manual_seed(1)
    config = {
        "model": {"num_classes": 10},
        "train": {"lr": args.lr, "batch_size": 32, "linear_probe": True, "total_steps": args.epochs * 12},
    }
    Experiment(config).fit(Glyphs(args.classes, 64, seed=0), args.epochs)
