import torch


class Callback:
    def on_train_begin(self, tr): ...
    def on_backward_end(self, tr): ...
    def on_step_end(self, tr): ...
    def on_epoch_end(self, tr, epoch): ...


class GradClip(Callback):
    def __init__(self, max_norm):
        self.max_norm = max_norm
        self.norms = []

    def on_backward_end(self, tr):
        norm = torch.nn.utils.clip_grad_norm_(tr.model.parameters(), self.max_norm)
        self.norms.append(norm.item())


class EMACallback(Callback):
    def __init__(self, decay=0.99):
        self.decay = decay

    def on_train_begin(self, tr):
        self.avg = [p.detach().clone() for p in tr.model.parameters()]

    @torch.no_grad()
    def on_step_end(self, tr):
        for a, p in zip(self.avg, tr.model.parameters()):
            a.lerp_(p, 1 - self.decay)


class Printer(Callback):
    def __init__(self, clip):
        self.clip = clip

    def on_epoch_end(self, tr, epoch):
        tail = self.clip.norms[-10:]
        print(f"epoch {epoch} loss {tr.mean_loss:.4f} grad norm {sum(tail) / len(tail):.1f} "
              f"scale {tr.scaler.get_scale():g}")
