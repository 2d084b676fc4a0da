"""Classify small crops of microscope frames with a ResNet."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader


class Frames(Dataset):
    """16x16 frames on a dark stage. Class = shape of the bright object."""

    def __init__(self, n, crop=10, train=True, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.crop = crop
        self.train = train
        self.x = torch.zeros(n, 1, 16, 16)
        self.y = torch.randint(0, 3, (n,), generator=self.gen)
        for i, c in enumerate(self.y.tolist()):
            r, q = torch.randint(1, 10, (2,), generator=self.gen).tolist()
            patch = torch.zeros(5, 5)
            if c == 0:
                patch[2, :] = 1
            elif c == 1:
                patch[:, 2] = 1
            else:
                patch[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]] = 1
            self.x[i, 0, r:r + 5, q:q + 5] = patch * (0.5 + 0.5 * torch.rand(1, generator=self.gen))

    def __len__(self):
        return len(self.y)

    def standardise(self, img):
        return (img - img.mean()) / img.std()

    def __getitem__(self, i):
        img = self.x[i]
        if self.train:
            a, b = torch.randint(0, 16 - self.crop + 1, (2,), generator=self.gen).tolist()
        else:
            a = b = (16 - self.crop) // 2
        img = img[:, a:a + self.crop, b:b + self.crop]
        if self.train and torch.rand(1, generator=self.gen) < 0.3:
            k = torch.randint(0, self.crop - 4, (2,), generator=self.gen).tolist()
            img = img.clone()
            img[:, k[0]:k[0] + 4, k[1]:k[1] + 4] = 0
        return self.standardise(img), self.y[i]


class ResBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.GroupNorm(4, o), nn.ReLU(),
            nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.GroupNorm(4, o))
        self.s = nn.Conv2d(i, o, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.f(x) + self.s(x))


def resnet(classes=3):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 1, 1), nn.ReLU(), ResBlock(8, 16, 2), ResBlock(16, 16, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def epoch_pass(model, loader, optimizer=None):
    model.train(optimizer is not None)
    loss_sum = hits = count = 0
    for x, y in loader:
        with torch.set_grad_enabled(optimizer is not None):
            out = model(x)
            loss = F.cross_entropy(out, y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        loss_sum += loss.item() * len(y)
        hits += (out.argmax(1) == y).sum().item()
        count += len(y)
    return loss_sum / count, hits / count


torch.manual_seed(0)
net = resnet()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
loader = DataLoader(Frames(256, seed=1), batch_size=16, shuffle=True)
for ep in range(4):
    print("epoch", ep, "loss %.4f acc %.3f" % epoch_pass(net, loader, opt))
