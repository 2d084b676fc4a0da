import math

import torch
import torch.nn.functional as F

from backbone import pretrained


class LinearProbe:
    def __init__(self, lr=0.05, epochs=5):
        self.epochs = epochs
        self.model = pretrained()
        for p in self.model.backbone.parameters():
            p.requires_grad_(False)
        params = [p for p in self.model.parameters() if p.requires_grad]
        print("trainable tensors:", len(params))
        self.optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, epochs)

    def prepare(self, dataset):
        x, y = dataset
        n_classes = int(y.max()) + 1
        if self.model.fc.out_features != n_classes:
            self.model.reset_classifier(n_classes)
        self.x, self.y = x, y
        self.chance = math.log(n_classes)

    def train_epoch(self):
        self.model.train()
        order = torch.randperm(len(self.x))
        loss_sum = hits = 0
        for idx in order.split(64):
            x, y = self.x[idx], self.y[idx]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = self.model(x)
                loss = F.cross_entropy(out, y, label_smoothing=0.05)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            loss_sum += loss.item() * len(idx)
            hits += (out.argmax(1) == y).sum().item()
        self.scheduler.step()
        return loss_sum / len(self.x), hits / len(self.x)

    def fit(self):
        for e in range(self.epochs):
            loss, acc = self.train_epoch()
            print(f"epoch {e} loss {loss:.4f} (chance {self.chance:.3f}) acc {acc:.3f}")


def flowers(n=1280, k=8):
    g = torch.Generator().manual_seed(0)
    c = torch.randn(k, 24, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return c[y] + 0.5 * torch.randn(n, 24, generator=g), y


if __name__ == "__main__":
    torch.manual_seed(0)
    probe = LinearProbe()
    probe.prepare(flowers())
    probe.fit()
