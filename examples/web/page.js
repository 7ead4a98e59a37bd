// A page that reports a visitor's choice. What is sent does not say what was clicked: see docs/privacy.md.

import { Device, IndexedDbStore, Sender } from "../../clients/js/build/src/index.js";

const status = document.querySelector("#status");
const choices = document.querySelector("#choices");

/** The JSON of a file beside this page. */
async function json(name) {
  return (await fetch(new URL(name, import.meta.url))).json();
}

try {
  const [definition, config] = await Promise.all([json("definition.json"), json("config.json")]);
  // A visitor leaves soon, so the report is sent at once: spread is 0. That shows when the choice was made, not which.
  const device = await Device.open(definition, await IndexedDbStore.open("page-theme"));
  const sender = new Sender(device.outbox, config.collector);

  /** Sends what waits; what the collector does not take now waits for the next visit, or the next minute. */
  async function send() {
    await sender.sendDue();
    const waiting = (await device.outbox.waiting()).length;
    status.textContent = waiting ? "Kept. It will be sent later." : "Thank you. Sent.";
  }

  for (const label of definition.domain.labels) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", async () => {
      try {
        await device.report(label);
        await send();
      } catch (error) {
        status.textContent = error.message;
      }
    });
    choices.append(button);
  }
  status.textContent = "Choose one.";
  if ((await device.outbox.waiting()).length) await send();
  setInterval(() => send().catch((error) => (status.textContent = error.message)), 60_000);
} catch (error) {
  status.textContent = error.message;
}
