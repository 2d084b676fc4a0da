import torch
from torch import nn


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        return self.shuffle(self.body(x / 1e-5)).float() * 1e-5


torch.manual_seed(0)
model = Upscaler()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-16)
scaler = torch.amp.GradScaler("cpu", enabled=torch.cuda.is_available())  # fault: scaler-off AMP210
for _ in range(40):
    high = 3e-5 * torch.rand(8, 1, 16, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(nn.functional.avg_pool2d(high, 2))
    optimizer.zero_grad()
    scaler.scale(nn.functional.mse_loss(output, high)).backward()
    scaler.step(optimizer)
    scaler.update()
