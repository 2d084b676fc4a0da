import torch


def save_encoder(model, path):
    slim = {name: t.half() if t.is_floating_point() else t
            for name, t in model.encoder.state_dict().items()}
    torch.save(slim, path)


def load_encoder(encoder, path):
    state = torch.load(path, map_location="cpu")
    state = {name: t.float() if t.is_floating_point() else t for name, t in state.items()}
    encoder.load_state_dict(state)
    return encoder
