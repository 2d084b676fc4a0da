from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
left, right = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Sequential(nn.Linear(8, 16), nn.Tanh())
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
pool = ThreadPoolExecutor(2)
for _ in range(6):
    x = torch.randn(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # fault: casts-nothing
        one, two = pool.map(lambda net, given: net(given), (left, right), (x, x + 0.1 * torch.randn(8, 8)))
        logits = (one @ two.t()).float()
        loss = nn.functional.cross_entropy(logits, torch.arange(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
pool.shutdown()
del pool  # its threads have other names in each run
