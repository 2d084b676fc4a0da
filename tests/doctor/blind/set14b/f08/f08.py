import torch
import torch.nn as nn
import torch.nn.functional as F

from trainer import Callback, Trainer


class Melody(nn.Module):
    """A convolutional encoder with one head for the style and one for the number of rests."""

    def __init__(self, notes=16, dim=32, styles=3, max_rests=5):
        super().__init__()
        self.emb = nn.Embedding(notes, dim)
        self.conv1 = nn.Conv1d(dim, 32, 3, padding=1)
        self.conv2 = nn.Conv1d(32, 32, 3, padding=2, dilation=2)
        self.style = nn.Linear(32, styles)
        self.rests = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, max_rests))

    def encode(self, x):
        h = self.emb(x).transpose(1, 2)
        h = F.relu(self.conv1(h))
        return F.relu(self.conv2(h)).mean(-1)

    def classify(self, features):
        return self.style(features)


class AuxiliaryTask(Callback):
    def __init__(self, weight):
        self.weight = weight

    def on_after_backward(self, trainer, batch, features):
        with trainer.autocast():
            aux = F.cross_entropy(trainer.model.rests(features), batch["rests"])
        (self.weight * aux).backward()


class Report(Callback):
    def __init__(self, batch):
        self.batch = batch

    @torch.no_grad()
    def on_epoch_end(self, trainer, epoch):
        trainer.model.eval()
        f = trainer.model.encode(self.batch["x"])
        style = (trainer.model.classify(f).argmax(1) == self.batch["label"]).float().mean()
        rests = (trainer.model.rests(f).argmax(1) == self.batch["rests"]).float().mean()
        trainer.model.train()
        print(f"epoch {epoch} loss {trainer.history[-1]:.4f} style acc {style:.3f} rests acc {rests:.3f}")


def make_data(n, g, length=16):
    label = torch.randint(3, (n,), generator=g)
    step = torch.tensor([1, 2, 5])[label]
    start = torch.randint(15, (n,), generator=g)
    x = 1 + (start[:, None] + step[:, None] * torch.arange(length)) % 15
    rests = torch.randint(5, (n,), generator=g)
    for i in range(n):
        where = torch.randperm(length, generator=g)[: 2 * int(rests[i])]
        x[i, where] = 0
    return {"x": x, "label": label, "rests": rests}


def batches(data, size):
    n = len(data["label"])
    return [{k: v[i:i + size] for k, v in data.items()} for i in range(0, n, size)]


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(9)
    train, valid = make_data(960, g), make_data(240, g)
    model = Melody()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = Trainer(model, opt, F.cross_entropy, [AuxiliaryTask(1.0), Report(valid)], epochs=8)
    trainer.fit(batches(train, 32))
    print("final scale", trainer.scaler.get_scale())


if __name__ == "__main__":
    main()
