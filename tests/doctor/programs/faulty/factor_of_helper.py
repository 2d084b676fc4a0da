import torch
from torch import nn


class Scaler:
    scale = torch.tensor(2.0**20)

    def step(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        scaled = self.scale * loss
        scaled.backward()  # fault: overflow
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(1 / self.scale)
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
scaler = Scaler()
for step in range(40):
    x = torch.randn(8, 16) * (1 + step)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), x.sum(1, keepdim=True))
    scaler.step(loss, optimizer)
