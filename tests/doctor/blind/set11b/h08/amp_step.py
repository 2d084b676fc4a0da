import torch


def clip_scaled(params, max_norm, scale):
    """Clip while the gradients still carry the loss scale."""
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm * scale)
    return norm / scale


class Stepper:
    """Several optimizers share one scaler; a network may sit out a round."""

    def __init__(self, scaler):
        self.scaler = scaler
        self.due = []

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, module, opt, max_norm):
        norm = clip_scaled(module.parameters(), max_norm, self.scaler.get_scale())
        self.scaler.step(opt)
        self.due.append(opt)
        return norm.item()

    def finish(self):
        if self.due:
            self.scaler.update()
        for opt in self.due:
            opt.zero_grad(set_to_none=True)
        self.due.clear()
