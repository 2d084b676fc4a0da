import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, net, optimizer, max_norm=1.0, dtype=torch.float16):
        self.net = net
        self.optimizer = optimizer
        self.max_norm = max_norm
        self.dtype = dtype
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14, growth_interval=500)
        self.last_norm = 0.0

    def forward(self, x, y):
        with torch.autocast("cpu", dtype=self.dtype):
            logits = self.net(x)
            return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())

    def step(self, x, y):
        self.net.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(x, y)
        self.scaler.scale(loss).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.last_norm = float(norm)
        return loss.item()

    def save(self, path):
        torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scaler": self.scaler.state_dict()}, path)
