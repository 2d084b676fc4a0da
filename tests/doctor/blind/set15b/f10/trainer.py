import torch


class Trainer:
    def __init__(self, model, optimizer, scheduler, loss_fn, callbacks=(), accum=2, dtype=torch.float16):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.loss_fn, self.callbacks, self.accum, self.dtype = loss_fn, callbacks, accum, dtype
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.mean_loss = float("nan")

    def fire(self, name, *a):
        for cb in self.callbacks:
            getattr(cb, name)(self, *a)

    def fit(self, loader, epochs):
        self.fire("on_train_begin")
        for epoch in range(epochs):
            losses = []
            self.optimizer.zero_grad(set_to_none=True)
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cpu", dtype=self.dtype):
                    loss = self.loss_fn(self.model(x), y)
                self.scaler.scale(loss / self.accum).backward()
                losses.append(loss.item())
                if (i + 1) % self.accum == 0:
                    self.fire("on_backward_end")
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.scheduler.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    self.fire("on_step_end")
            self.mean_loss = sum(losses) / len(losses)
            self.fire("on_epoch_end", epoch)
