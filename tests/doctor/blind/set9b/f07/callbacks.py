import torch


class Callback:
    learner = None

    def on_train_begin(self):
        pass

    def on_step_end(self):
        pass

    def on_epoch_end(self):
        pass


class CallbackList:
    def __init__(self, callbacks, learner):
        self.callbacks = callbacks
        for cb in callbacks:
            cb.learner = learner

    def fire(self, event):
        for cb in self.callbacks:
            getattr(cb, event)()


class WarmupLR(Callback):
    def __init__(self, optimizer, steps):
        self.optimizer = optimizer
        self.steps = steps
        self.base = [g["lr"] for g in optimizer.param_groups]

    def on_step_end(self):
        f = min(1.0, (self.learner.global_step + 1) / self.steps)
        for g, lr in zip(self.optimizer.param_groups, self.base):
            g["lr"] = lr * f


class MaxNorm(Callback):
    def __init__(self, module, limit, every=4):
        self.module = module
        self.limit = limit
        self.every = every

    @torch.no_grad()
    def on_step_end(self):
        if self.learner.global_step % self.every:
            return
        w = self.module.weight
        norm = w.norm(dim=1, keepdim=True)
        w.mul_(norm.clamp(max=self.limit) / norm)


class LossLogger(Callback):
    def __init__(self, every):
        self.every = every
        self.values = []

    def on_step_end(self):
        self.values.append(self.learner.loss)
        if self.learner.global_step % self.every == 0:
            print(f"step {self.learner.global_step} loss {self.learner.loss:.4f}")

    def on_epoch_end(self):
        print(f"epoch {self.learner.epoch} mean loss {sum(self.values) / len(self.values):.4f}")
        self.values.clear()
