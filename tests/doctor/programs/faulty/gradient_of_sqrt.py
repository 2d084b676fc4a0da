import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 6)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(40):
    x = torch.randn(8, 6)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        a = net(x)
        b = net(x) if step % 1 == 0 else net(-x)
    distance = (a.float() - b.float()).pow(2).sum(-1)
    loss = torch.sqrt(distance).mean()  # fault: math
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
