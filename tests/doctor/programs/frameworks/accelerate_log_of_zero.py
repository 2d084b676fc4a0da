import torch
from accelerate import Accelerator
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.head(torch.relu(self.body(x))).softmax(-1)


def negative_log(probabilities, y):
    picked = probabilities.gather(1, y[:, None])
    return -torch.log(picked).mean()  # fault: math


GPU = torch.cuda.is_available()  # float16 needs one
torch.manual_seed(0)
accelerator = Accelerator(cpu=not GPU, mixed_precision="fp16" if GPU else "bf16")
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))
x[40] = 1e4
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (x, y) in enumerate(loader):
    loss = negative_log(model(x), y)
    print(step, loss.item())
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
