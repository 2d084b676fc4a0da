import io

import torch


def pack(model):
    """Small checkpoints: floating point tensors are stored in half."""
    sd = model.state_dict()
    sd = {k: v.half() if v.is_floating_point() else v for k, v in sd.items()}
    buf = io.BytesIO()
    torch.save(sd, buf)
    print(f"checkpoint: {len(sd)} tensors, {buf.tell() / 1024:.0f} KiB")
    return buf.getvalue()


def unpack(blob, model):
    sd = torch.load(io.BytesIO(blob))
    sd = {k: v.float() if v.is_floating_point() else v for k, v in sd.items()}
    model.load_state_dict(sd)
    return model
