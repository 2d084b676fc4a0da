"""Fine-tune a small ResNet, then combine the pretrained and the tuned checkpoints and evaluate."""
import io
import torch
import torch.nn as nn
import torch.nn.functional as F


class Basic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)
        self.c2, self.b2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(h)))


class ResNetTiny(nn.Module):
    def __init__(self, classes=4, c=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU())
        self.layer = nn.Sequential(Basic(c), Basic(c))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(self.layer(self.stem(x)).mean((2, 3)))


def domain(n, contrast, noise, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 6.28, 16)
    waves = torch.stack([
        torch.sin(2 * t)[None].expand(16, 16), torch.sin(2 * t)[:, None].expand(16, 16),
        torch.sin(t[:, None] + t[None]), torch.sin(2 * t)[:, None] * torch.sin(2 * t)[None]])
    x = waves[y] * contrast + noise * torch.randn(n, 16, 16, generator=g)
    return x[:, None], y


def train(net, data, steps, lr):
    x, y = data
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    for _ in range(steps):
        j = torch.randint(0, len(x), (32,))
        loss = F.cross_entropy(net(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def evaluate(net, data):
    net.eval()
    out = net(data[0])
    return F.cross_entropy(out, data[1]).item(), (out.argmax(1) == data[1]).float().mean().item()


def snapshot(net):
    buf = io.BytesIO()
    torch.save(net.state_dict(), buf)
    buf.seek(0)
    return torch.load(buf)


def task_vector_merge(base, tuned, lam):
    merged = {}
    for name, w in base.items():
        if w.is_floating_point():
            merged[name] = w + lam * (tuned[name] - w)
        else:
            merged[name] = tuned[name]
    return merged


def main():
    torch.manual_seed(0)
    source, target = domain(256, 1.6, 0.8, 1), domain(256, 0.7, 0.3, 2)
    net = ResNetTiny()
    print("pretrain loss", train(net, source, 60, 0.05))
    base = snapshot(net)
    print("tune loss", train(net, target, 40, 0.02))
    tuned = snapshot(net)
    print("tuned, target (loss, acc):", evaluate(net, target))
    for lam in (0.5, 1.0, 1.3):
        net.load_state_dict(task_vector_merge(base, tuned, lam))
        print("lambda", lam, "target (loss, acc):", evaluate(net, target))


main()
