"""Micro-batched image classifier, float16 with a GradScaler, SGD + momentum."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, padding=1)
        self.c2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 24)
        self.fc = nn.Linear(24, classes)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.norm(self.c2(x)))
        return self.fc(x.mean(dim=(2, 3)))


def stripes(n, gen):
    y = torch.randint(0, 4, (n,), generator=gen)
    r = torch.arange(12.0)
    imgs = []
    for k in y.tolist():
        phase = torch.rand(1, generator=gen) * 6.28
        a, b = [(1, 0), (0, 1), (1, 1), (1, -1)][k]
        imgs.append(torch.sin(1.2 * (a * r[:, None] + b * r[None, :]) + phase))
    x = torch.stack(imgs).unsqueeze(1)
    return x + 0.2 * torch.randn(x.shape, generator=gen), y


class AmpStepper:
    def __init__(self, model, optimizer, accumulate, max_norm):
        self.model = model
        self.optimizer = optimizer
        self.accumulate = accumulate
        self.max_norm = max_norm
        self.scaler = torch.amp.GradScaler("cpu")
        self.calls = 0

    def __call__(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x)
            loss = F.cross_entropy(logits.float(), y)
        self.scaler.scale(loss / self.accumulate).backward()
        self.calls += 1
        if self.calls % self.accumulate == 0:
            self.flush()
        return loss.item()

    def flush(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = AmpStepper(model, opt, accumulate=2, max_norm=1.0)
    for epoch in range(6):
        losses = [step(*stripes(24, gen)) for _ in range(16)]
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} scale {step.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
