// The leak meter: what the kept records say about one that is erased, under three policies. Demo only.
import { count, make, number, setText, spread } from "./format.js";

const FULL = 16; // bits at which the bar is full
const TITLES = { mean: "Mean", window: "Window", private: "Private" };

export function setLeak(demo) {
  const { watched, leak, unit } = demo;
  document.getElementById("leak-section").hidden = false;
  if (!watched) {
    setText("leak-story", "Choose a record: ask for a removal, or pick a mark in the strip.");
    document.getElementById("leak").replaceChildren();
    return;
  }
  setText("leak-story", `Watched: the flight of ${watched.subject} in round ${count(watched.round)}, ${count(demo.truth.count - watched.round)} rounds ago. Its real delay was ${number(watched.value, 1)} ${unit} (shadow truth).`);
  document.getElementById("leak").replaceChildren(...leak.map((each) => card(each, demo)));
}

function card({ policy, held, guess, spread: wide, raw, bits, error }, { unit, prior, epsilon }) {
  const said = `${number(guess, Math.min(Math.max(wide, 0.01), 1))} ${unit}`;
  const texts = {
    mean: held ? "Still held, so it can simply be read." : "Erased. The choice of the kept records still tells it.",
    window: held ? "Still in the window, so it can simply be read." : "It has left the window: nothing is left, only the average of all.",
    private: held ? "Still held: noise hides only what is erased." : `Noise hides it (epsilon ${epsilon}); solving gives ${number(raw, 10)}, a number that says next to nothing.`,
  };
  return make("div", "", { class: `meter ${policy}` },
    make("h3", TITLES[policy]), make("b", said, { "data-guess": guess }),
    make("small", `± ${spread(wide)} ${unit}; without the store: ${number(prior.mean, 1)} ± ${spread(prior.deviation)}`),
    make("meter", "", { min: 0, max: FULL, value: Math.min(bits, FULL), "aria-label": `${TITLES[policy]}: bits learned`, "aria-valuetext": `${number(bits, 0.1)} bits` }),
    make("small", bits >= FULL ? "all there is to know" : `${number(bits, 0.1)} bits learned`),
    make("small", texts[policy]),
    make("small", `Its answer for all is ${number(Math.abs(error), 0.01)} ${unit} off.`));
}
