import torch
import torch.nn.functional as F


class Engine:
    def __init__(self, model, optimizer, accum=1, max_norm=None, dtype=torch.float16):
        self.model, self.optimizer = model, optimizer
        self.accum, self.max_norm, self.dtype = accum, max_norm, dtype
        self.scaler = torch.amp.GradScaler("cpu")

    def forward(self, x, y):
        with torch.autocast("cpu", dtype=self.dtype):
            out = self.model(x)
            return out, F.binary_cross_entropy_with_logits(out.float(), y)

    def apply_gradients(self):
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def train(self, loader):
        self.model.train()
        total = 0.0
        for i, (x, y) in enumerate(loader):
            _, loss = self.forward(x, y)
            self.scaler.scale(loss / self.accum).backward()
            if (i + 1) % self.accum == 0:
                self.apply_gradients()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        inter = union = 0.0
        for x, y in loader:
            out, _ = self.forward(x, y)
            p = (out > 0).float()
            inter += (p * y).sum().item()
            union += ((p + y) > 0).float().sum().item()
        return inter / max(union, 1.0)
