import torch


class BoundedClip:
    """Clips gradients in scaled units, so that no unscale pass over the weights is needed."""

    def __init__(self, max_norm):
        self.max_norm = max_norm

    def __call__(self, params, scaler):
        return torch.nn.utils.clip_grad_norm_(params, self.max_norm * scaler.get_scale())


class WeightEma:
    def __init__(self, model, decay):
        self.decay = decay
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model, warm):
        d = min(self.decay, (1 + warm) / (10 + warm))
        for k, v in model.state_dict().items():
            if v.dtype.is_floating_point:
                self.state[k].lerp_(v, 1 - d)


def run_epoch(model, batches, criterion, optimizer, scaler, clip, ema, accum):
    params = [p for p in model.parameters() if p.requires_grad]
    total, norm = 0.0, float("nan")
    optimizer.zero_grad(set_to_none=True)
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(x), y) / accum
        scaler.scale(loss).backward()
        total += loss.item() * accum
        if (i + 1) % accum == 0 or i + 1 == len(batches):
            norm = clip(params, scaler)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            ema.update(model, i // accum)
    return total / len(batches), norm.item()
