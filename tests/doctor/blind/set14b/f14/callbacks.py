class Callback:
    def after_step(self, loop, step): ...
    def after_epoch(self, loop, epoch): ...


class LossScaleFloor(Callback):
    """Keeps the loss scale from sinking so low that small gradients are lost."""

    def __init__(self, floor):
        self.floor = floor

    def after_step(self, loop, step):
        if loop.scaler.get_scale() < self.floor:
            loop.scaler.update(self.floor)


class Progress(Callback):
    def __init__(self):
        self.losses = []

    def after_step(self, loop, step):
        self.losses.append(loop.last_loss)

    def after_epoch(self, loop, epoch):
        print(f"epoch {epoch} nll/token {sum(self.losses) / len(self.losses):.4f} "
              f"token acc {loop.accuracy():.3f} scale {loop.scaler.get_scale():g}")
        self.losses.clear()
