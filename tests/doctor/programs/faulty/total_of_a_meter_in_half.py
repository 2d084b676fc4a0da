"""The square error of an evaluation, summed up in float16 by a meter, is printed."""

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total = self.total + value
        self.count += n

    @property
    def mean(self):
        return self.total / self.count


def validate(model, data):
    model.eval()
    meter = Meter()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for x, y in data:
            error = (model(x) - y.half()).square()
            meter.update(error.sum(), len(x))  # fault: overflow AMP510
    model.train()
    return meter


torch.manual_seed(0)
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(512, 6)
data = list(zip(x.split(32), (30 * x[:, :4]).split(32)))
for epoch in range(3):
    for a, b in data:
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(a)
        loss = nn.functional.mse_loss(out.float(), b)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    found = validate(model, data)
    with torch.no_grad():
        print(f"epoch {epoch}: error {found.mean:.2f}")
