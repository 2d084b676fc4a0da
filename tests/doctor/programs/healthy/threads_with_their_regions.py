from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
left, right = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Sequential(nn.Linear(8, 16), nn.Tanh())
teacher = nn.Linear(8, 16)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
pool = ThreadPoolExecutor(2)


def cast(net, given):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(given)


def precise(net, given):
    with torch.autocast("cpu", enabled=False):
        return net(given)


def unrelated(net, given):
    return net(given).sum().item()


for _ in range(6):
    x = torch.randn(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = pool.submit(unrelated, teacher, x)
        one, two = pool.submit(cast, left, x), pool.submit(precise, right, x + 0.1 * torch.randn(8, 8))
        loss = nn.functional.cross_entropy((one.result() @ two.result().t()).float(), torch.arange(8))
    seen.result()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
pool.shutdown()
del pool  # its threads have other names in each run
