import torch
from torch import nn


def apart(state):
    return state.detach()


torch.manual_seed(0)
model = nn.RNN(4, 4, nonlinearity="relu")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with torch.no_grad():
    model.weight_hh_l0.copy_(400 * torch.eye(4))
state = torch.zeros(1, 8, 4)
for _ in range(12):
    inputs = torch.rand(3, 8, 4)
    optimizer.zero_grad()
    state = apart(state)
    output, state = model(inputs, state)  # fault: math
    loss = output.log1p().sub(1).abs().mean()
    loss.backward()
