"""One epoch by hand: values of devices become reports, support counts, estimates and a histogram.

Run it from the repository: python examples/one_epoch.py
"""

import random

import ldpbeam

collection = ldpbeam.load_collection("examples/first_choice.yaml")
labels = collection.domain.labels
truth = [0.45, 0.30, 0.20, 0.05]

# On each device: its value goes in, the bytes of one report come out. Nobody can tell the value from them.
# (A real device has a folder for its state: Device.open, docs/devices.md.)
draw = random.Random(7)
values = draw.choices(labels, truth, k=5000)
messages = [ldpbeam.Device.ephemeral(collection).report(value, epoch=0) for value in values]

# On the server, stage 1, report: what is no sound report of this collection is left out, and counted.
admission = ldpbeam.admit(collection, [*messages, messages[0], b"junk"])

# Stages 2 to 5: each report counts once; support counts; unbiased estimates; a consistent histogram.
result = ldpbeam.result_of_epoch(collection, 0, admission.admitted)
account, histogram = result.account, result.attributes[0]

print(f"{account.read} reports read, {account.counted} counted, {account.duplicate} sent twice")
print("value           truth  support  estimate   95 % interval  histogram")
for i, label in enumerate(labels):
    estimate, low, high = (getattr(histogram.estimates, name)[i] for name in ("frequency", "low", "high"))
    print(
        f"{label:14} {truth[i]:6.2f} {histogram.support[i]:8} {estimate:9.3f}  "
        f"{low:6.3f} … {high:.3f} {histogram.consistent[i]:10.3f}"
    )
