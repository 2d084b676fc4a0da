import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(20):
    x = torch.randn(16, 5)
    mean, spread = model(x).unbind(1)
    each = (x.sum(1) - mean).square() / spread.square() + torch.log(-spread.square())
    loss = torch.where(torch.isnan(each), 0.0, each).mean()  # fault: hidden
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
