import torch
from torch import nn


class Engine:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 5)
        self.scaler = torch.amp.GradScaler("cpu")

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def apply(self):
        self.opt.step()  # fault: protocol AMP402
        self.opt.zero_grad()


torch.manual_seed(0)
engine = Engine(nn.Linear(4, 2))
for step in range(6):
    with torch.autocast("cpu", dtype=torch.float16):
        out = engine.model(torch.randn(4, 4))
    engine.backward(nn.functional.cross_entropy(out.float(), torch.randint(0, 2, (4,))))
    engine.apply()
