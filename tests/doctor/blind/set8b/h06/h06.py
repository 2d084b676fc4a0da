"""Self-distillation: a slow copy teaches, the stem stays as it was, evaluation runs in half."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def digits(n, seed, size=12):
    """Seven-segment pictures."""
    table = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (n,), generator=g)
    img = torch.zeros(n, 1, size, size)
    spots = [(slice(1, 2), slice(3, 9)), (slice(2, 6), slice(2, 3)), (slice(2, 6), slice(9, 10)),
             (slice(6, 7), slice(3, 9)), (slice(7, 11), slice(2, 3)), (slice(7, 11), slice(9, 10)), (slice(11, 12), slice(3, 9))]
    for i, c in enumerate(y.tolist()):
        for on, (r, k) in zip(table[c], spots):
            if on == "1":
                img[i, 0, r, k] = 1.0
    return TensorDataset(img + 0.4 * torch.randn(n, 1, size, size, generator=g), y)


class Net(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, ch, 3, padding=1), nn.BatchNorm2d(ch), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(ch, ch * 2, 3, 2, 1), nn.BatchNorm2d(ch * 2), nn.ReLU(),
                                  nn.Conv2d(ch * 2, ch * 2, 3, 2, 1), nn.ReLU())
        self.head = nn.Linear(ch * 2 * 9, 10)
        self.aux = nn.Linear(ch * 2 * 9, 10)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).flatten(1))


class Slow:
    def __init__(self, net, decay):
        self.net = copy.deepcopy(net).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def follow(self, net):
        for a, b in zip(self.net.state_dict().values(), net.state_dict().values()):
            if a.is_floating_point():
                a.lerp_(b, 1 - self.decay)
            else:
                a.copy_(b)


@torch.inference_mode()
def accuracy_half(net, loader):
    half = copy.deepcopy(net).half().eval()
    return sum((half(x.half()).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--tau", type=float, default=2.0)
    p.add_argument("--weight", type=float, default=0.5)
    args = p.parse_args()
    torch.manual_seed(0)
    net = Net()
    net.stem.requires_grad_(False)
    slow = Slow(net, 0.95)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    train, test = DataLoader(digits(1024, 1), 64, shuffle=True), DataLoader(digits(256, 2), 128)
    for epoch in range(args.epochs):
        net.train()
        hard_sum = soft_sum = 0.0
        for x, y in train:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                with torch.no_grad():
                    target = slow.net(x).float().div(args.tau).softmax(-1)
                logits = net(x).float()
                hard = F.cross_entropy(logits, y)
                soft = F.kl_div(F.log_softmax(logits / args.tau, -1), target, reduction="batchmean") * args.tau ** 2
                loss = hard + args.weight * min(1.0, epoch / 2) * soft
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            slow.follow(net)
            hard_sum += hard.item()
            soft_sum += soft.item()
        print(f"epoch {epoch} hard {hard_sum / len(train):.4f} soft {soft_sum / len(train):.4f} "
              f"half acc {accuracy_half(net, test):.3f} slow {accuracy_half(slow.net, test):.3f}")


if __name__ == "__main__":
    main()
