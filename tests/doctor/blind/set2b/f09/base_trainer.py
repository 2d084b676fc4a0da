import torch


class Trainer:
    """Minimal loop with hooks; subclasses say what a loss is."""

    def __init__(self, model, optimizer, amp=True, accum=1):
        self.model, self.optimizer = model, optimizer
        self.amp, self.accum = amp, accum
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8192.0, enabled=amp)
        self.global_step = 0

    def compute_loss(self, batch):
        raise NotImplementedError

    def on_after_backward(self):
        pass

    def on_step_end(self, logs):
        pass

    def train_step(self, micro_batches):
        total = 0.0
        for mb in micro_batches:
            with torch.autocast("cpu", dtype=torch.float16, enabled=self.amp):
                loss = self.compute_loss(mb) / self.accum
            self.scaler.scale(loss).backward()
            total += loss.item()
        self.on_after_backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.global_step += 1
        self.on_step_end({"loss": total, "scale": self.scaler.get_scale()})
        return total

    def fit(self, batches):
        it = iter(batches)
        try:
            while True:
                self.train_step([next(it) for _ in range(self.accum)])
        except StopIteration:
            return self
