import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from hooks import ClipGradients, GradientStats, GradientFilter
from shapes import ShapeMasks


class Down(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.d1 = Down(width, 2 * width)
        self.d2 = Down(2 * width, 2 * width)
        self.u1 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.u2 = nn.ConvTranspose2d(4 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 1, 1)

    def forward(self, x):
        a = self.stem(x)
        b = self.d1(a)
        c = self.d2(b)
        u = torch.relu(self.u1(c))
        u = torch.relu(self.u2(torch.cat([u, b], 1)))
        return self.out(torch.cat([u, a], 1))


class SegmentationTask:
    def __init__(self, args):
        self.model = SmallUNet(args.width)
        self.criterion = nn.BCEWithLogitsLoss(reduction="sum", pos_weight=torch.tensor(4.0))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.hooks = [GradientFilter(), ClipGradients(args.clip), GradientStats()]

    def optimize(self):
        self.hooks[0](self.model)
        self.scaler.unscale_(self.optimizer)
        for hook in self.hooks[1:]:
            hook(self.model)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self, image, mask):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(image)
            loss = self.criterion(logits, mask)
        self.scaler.scale(loss).backward()
        self.optimize()
        return loss.item()

    @torch.no_grad()
    def iou(self, loader):
        self.model.eval()
        inter = union = 0.0
        for image, mask in loader:
            pred = self.model(image) > 0
            inter += (pred & (mask > 0)).sum().item()
            union += (pred | (mask > 0)).sum().item()
        self.model.train()
        return inter / max(union, 1.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--clip", type=float, default=1.0)
    args = parser.parse_args()
    torch.manual_seed(4)
    train_loader = DataLoader(ShapeMasks(96, seed=0), args.batch_size, shuffle=True)
    valid_loader = DataLoader(ShapeMasks(32, seed=1), 16)
    task = SegmentationTask(args)
    for epoch in range(args.epochs):
        losses = [task.step(image, mask) for image, mask in train_loader]
        print(f"epoch {epoch} loss/image {sum(losses) / 96:.1f} iou {task.iou(valid_loader):.3f} "
              f"{task.hooks[-1].summary()}")


if __name__ == "__main__":
    main()
