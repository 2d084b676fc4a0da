import torch


class Callback:
    def on_fit_start(self, trainer): ...
    def on_after_backward(self, trainer, batch, features): ...
    def on_epoch_end(self, trainer, epoch): ...


class Trainer:
    def __init__(self, model, optimizer, loss_fn, callbacks=(), epochs=6, fp16=True):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.callbacks, self.epochs = list(callbacks), epochs
        self.fp16 = fp16
        self.scaler = torch.amp.GradScaler("cpu", enabled=fp16)
        self.history = []

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16, enabled=self.fp16)

    def emit(self, name, *args):
        for cb in self.callbacks:
            getattr(cb, name)(self, *args)

    def training_step(self, batch):
        with self.autocast():
            features = self.model.encode(batch["x"])
            loss = self.loss_fn(self.model.classify(features), batch["label"])
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward(retain_graph=True)
        self.emit("on_after_backward", batch, features)
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def fit(self, loader):
        self.emit("on_fit_start")
        for epoch in range(self.epochs):
            losses = [self.training_step(b) for b in loader]
            self.history.append(sum(losses) / len(losses))
            self.emit("on_epoch_end", epoch)
