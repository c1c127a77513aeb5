"""Programs that train small networks in Keras and torch, and save them with samples and labels.

Each makes its data, as the guides' programs do, which are among them: stripes in ten directions
with noise, or sums of sines of three frequencies with noise for recurrent layers.
"""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "how-to"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

SERIES = """
def series(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    phases = rng.uniform(0, 2 * np.pi, (count, 1, 4))
    waves = np.sin((0.3 + 0.2 * labels[:, None, None]) * np.arange(24)[:, None] + phases)
    return (waves + rng.normal(0, 1, waves.shape)).astype(np.float32), labels
"""

KERAS_RESIDUAL = """
layers = keras.layers
image = keras.Input((32, 32, 3), name="image")
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(image)
for filters, strides in ((16, 1), (32, 2)):
    y = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
    x = x if strides == 1 else layers.Conv2D(filters, 1, strides=2)(x)
    x = layers.ReLU()(layers.Add()([x, y]))
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(image, layers.Dense(10, activation="softmax", name="scores")(x))
"""

KERAS_RECURRENT = f"""
import keras
import numpy as np
{SERIES}
series_input = keras.Input((24, 4), name="series")
x = keras.layers.LSTM(16)(series_input)
model = keras.Model(series_input, keras.layers.Dense(3, activation="softmax", name="scores")(x))
model.compile("adam", "sparse_categorical_crossentropy")
inputs, labels = series(2000, seed=0)
model.fit(inputs, labels, epochs=10, verbose=0)
model.save("net.keras")
np.savez("samples.npz", series=inputs[:200])
test_inputs, test_labels = series(1000, seed=1)
np.savez("labels.npz", series=test_inputs, labels=test_labels)
"""

TORCH_RESIDUAL = """
class Block(torch.nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        n = torch.nn
        self.body = n.Sequential(
            n.Conv2d(inputs, filters, 3, stride, 1, bias=False), n.BatchNorm2d(filters), n.ReLU(),
            n.Conv2d(filters, filters, 3, 1, 1, bias=False), n.BatchNorm2d(filters),
        )
        self.beside = n.Identity() if stride == 1 else n.Conv2d(inputs, filters, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.beside(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        n = torch.nn
        self.body = n.Sequential(
            n.Conv2d(3, 16, 3, 2, 1), n.ReLU(), Block(16, 16, 1), Block(16, 32, 2),
            n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(32, 10),
        )

    def forward(self, image):
        return {"scores": self.body(image)}
"""

TORCH_RECURRENT = f"""
import numpy as np
import torch
{SERIES}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 16, batch_first=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, series):
        return {{"scores": self.head(self.lstm(series)[0][:, -1])}}


torch.manual_seed(0)
model = Net()
inputs, labels = series(2000, seed=0)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(10):
    for rows in torch.randperm(2000).split(32):
        optimizer.zero_grad()
        scores = model(torch.from_numpy(inputs[rows]))["scores"]
        torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels[rows])).backward()
        optimizer.step()
program = torch.export.export(model.eval(), (torch.zeros(1, 24, 4),))
torch.export.save(program, "net.pt2")
np.savez("samples.npz", series=inputs[:200])
test_inputs, test_labels = series(1000, seed=1)
np.savez("labels.npz", series=test_inputs, labels=test_labels)
"""


def program_of_guide(page: str) -> str:
    """The first program of a guide."""
    found = _BLOCK.search((GUIDES / page).read_text("utf-8"))
    assert found is not None, page
    return found[1]


def _with_network(program: str, begin: str, end: str, network: str) -> str:
    """A program with another network: the text from `begin` to `end` is replaced."""
    head, _, rest = program.partition(begin)
    _, found, tail = rest.partition(end)
    assert found, begin
    return f"{head}{network.strip()}\n{found}{tail}"


def programs() -> dict[str, tuple[str, str]]:
    """By name, the file that a program saves, and the program."""
    keras, torch = program_of_guide("from-keras.md"), program_of_guide("from-pytorch.md")
    of_keras = _with_network(keras, "layers = keras.layers", "model.compile(", KERAS_RESIDUAL)
    of_torch = _with_network(torch, "class Net(", "\n\ntorch.manual_seed(0)", TORCH_RESIDUAL)
    return {
        "Keras, guide": ("net.keras", keras),
        "Keras, residual": ("net.keras", of_keras),
        "Keras, LSTM": ("net.keras", KERAS_RECURRENT),
        "PyTorch, guide": ("net.pt2", torch),
        "PyTorch, residual": ("net.pt2", of_torch),
        "PyTorch, LSTM": ("net.pt2", TORCH_RECURRENT),
    }
