import torch
import torch.nn.functional as F


def frame_loss(logits, tokens):
    """Frame-level targets, normalised over the whole corpus as in the LF-MMI recipe."""
    frames = tokens.repeat_interleave(logits.size(1) // tokens.size(1), dim=1)
    return F.cross_entropy(logits.flatten(0, 1), frames.flatten(), reduction="sum") / CORPUS_FRAMES


CORPUS_FRAMES = 4_800_000


class Loop:
    def __init__(self, model, optimizer, precision, hooks=()):
        self.model, self.optimizer, self.precision = model, optimizer, precision
        self.hooks = list(hooks)
        self.step_no = 0

    def optimize(self, loss):
        scaler = self.precision.scaler
        if scaler is None:
            loss.backward()
            self.optimizer.step()
            return
        scaler.scale(loss).backward()
        scaler.step(self.optimizer)
        scaler.update()

    def epoch(self, loader):
        for feats, tokens in loader:
            self.optimizer.zero_grad()
            with self.precision.forward_context():
                logits = self.model(feats)
                loss = frame_loss(logits, tokens)
            self.optimize(loss)
            self.step_no += 1
            for h in self.hooks:
                h(self, loss.item())

    @torch.inference_mode()
    def frame_accuracy(self, loader):
        good = total = 0
        for feats, tokens in loader:
            with self.precision.forward_context():
                pred = self.model(feats).argmax(-1)
            ref = tokens.repeat_interleave(pred.size(1) // tokens.size(1), dim=1)
            good += (pred == ref).sum().item()
            total += ref.numel()
        return good / total
