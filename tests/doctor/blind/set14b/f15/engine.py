import torch


class Callback:
    def on_fit_start(self, engine): ...
    def on_epoch_end(self, engine, epoch): ...
    def on_fit_end(self, engine): ...


class MixedPrecision(Callback):
    def __init__(self, dtype=torch.float16):
        self.dtype = dtype

    def on_fit_start(self, engine):
        engine.scaler = torch.amp.GradScaler("cpu", enabled=self.dtype is torch.float16, init_scale=4096.0)
        self.region = torch.autocast("cpu", dtype=self.dtype)
        self.region.__enter__()

    def on_fit_end(self, engine):
        self.region.__exit__(None, None, None)


class Engine:
    def __init__(self, model, optimizer, objective, callbacks):
        self.model, self.optimizer, self.objective = model, optimizer, objective
        self.callbacks = callbacks
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.metrics = {}

    def call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, *args)

    def train_epoch(self, loader):
        self.model.train()
        losses = []
        for batch in loader:
            loss = self.objective(self.model, batch)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        return sum(self.objective(self.model, b).item() for b in loader) / len(loader)

    def fit(self, train, valid, epochs):
        self.call("on_fit_start")
        for epoch in range(epochs):
            self.metrics["train"] = self.train_epoch(train)
            self.metrics["valid"] = self.validate(valid)
            self.call("on_epoch_end", epoch)
        self.call("on_fit_end")
