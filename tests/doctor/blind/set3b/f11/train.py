"""Domain-adaptive classifier: a feature extractor is trained against a domain critic, two optimisers."""
import torch
import torch.nn.functional as F
from torch import nn


class Features(nn.Module):
    def __init__(self, dim=10, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, out))

    def forward(self, x):
        return self.net(x)


class Critic(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))

    def forward(self, z):
        return self.net(z).squeeze(-1)


def domains(seed=0, dim=10, classes=3):
    g = torch.Generator().manual_seed(seed)
    proto = 1.5 * torch.randn(classes, dim, generator=g)
    shift = 1.0 * torch.randn(dim, generator=g)

    def sample(n, target):
        y = torch.randint(0, classes, (n,), generator=g)
        x = proto[y] + torch.randn(n, dim, generator=g)
        return (x + shift if target else x), y

    return sample


class Adapter:
    def __init__(self, lr=0.05, weight=0.3):
        self.features, self.head, self.critic = Features(), nn.Linear(16, 3), Critic()
        main = [*self.features.parameters(), *self.head.parameters()]
        self.opt = torch.optim.SGD(main, lr=lr, momentum=0.9)
        self.opt_critic = torch.optim.SGD(self.critic.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
        self.weight = weight

    @staticmethod
    def autocast():
        return torch.autocast("cpu", dtype=torch.float16)

    def critic_step(self, source, target):
        with self.autocast():
            with torch.no_grad():
                zs, zt = self.features(source), self.features(target)
            score = torch.cat([self.critic(zs), self.critic(zt)])
            truth = torch.cat([torch.ones(len(zs)), torch.zeros(len(zt))])
            loss = F.binary_cross_entropy_with_logits(score, truth)
        self.opt_critic.zero_grad()
        loss.backward()
        self.scaler.step(self.opt_critic)
        accuracy = ((score > 0) == (truth > 0.5)).float().mean()
        return loss.item(), accuracy.item()

    def main_step(self, source, label, target):
        for p in self.critic.parameters():
            p.requires_grad_(False)
        with self.autocast():
            zs, zt = self.features(source), self.features(target)
            task = F.cross_entropy(self.head(zs), label)
            fool = F.binary_cross_entropy_with_logits(self.critic(zt), torch.ones(len(zt)))
            loss = task + self.weight * fool
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        for p in self.critic.parameters():
            p.requires_grad_(True)
        return task.item()

    def step(self, sample, n=64):
        (xs, ys), (xt, _) = sample(n, False), sample(n, True)
        task = self.main_step(xs, ys, xt)
        critic, accuracy = self.critic_step(xs, xt)
        self.scaler.update()
        return {"task": task, "critic": critic, "critic_acc": accuracy}

    @torch.no_grad()
    def accuracy(self, sample, target):
        x, y = sample(300, target)
        return (self.head(self.features(x)).argmax(-1) == y).float().mean().item()


def main(steps=120):
    torch.manual_seed(0)
    sample, adapter = domains(), Adapter()
    for i in range(1, steps + 1):
        row = adapter.step(sample)
        if i % 20 == 0:
            print(i, *(f"{k}={v:.3f}" for k, v in row.items()),
                  f"source={adapter.accuracy(sample, False):.3f} target={adapter.accuracy(sample, True):.3f}")


if __name__ == "__main__":
    main()
