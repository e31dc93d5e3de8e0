// One way to the service: the token stays in memory, a problem becomes an error with the service's own sentence.
import { byId } from "./format.js";

const SILENCE = 45000; // milliseconds; the service says something every 15 seconds
let token = null;
let asked = null;

function askToken() {
  asked ??= new Promise((resolve, reject) => {
    const dialog = byId("token-dialog");
    byId("token-refused").hidden = token === null;
    byId("token-form").onsubmit = () => {
      token = byId("token").value.trim();
      byId("metrics-link").hidden = true; // a link sends no token
      byId("token").value = "";
      resolve();
    };
    dialog.oncancel = () => reject(new Error("The service asks for a token. Reload the page to give one."));
    dialog.showModal();
  }).finally(() => { asked = null; });
  return asked;
}

function headers(more = {}) {
  return token === null ? more : { ...more, Authorization: `Bearer ${token}` };
}

async function ask(path, options) {
  for (;;) {
    const used = token;
    const answer = await fetch(path, { ...options, headers: headers(options.headers) }).catch((problem) => {
      throw options.signal?.aborted ? problem : Object.assign(new Error("The service does not answer. Trying again."), { isLost: true });
    });
    if (answer.status !== 401) return answer;
    if (used === token) await askToken();
  }
}

async function call(method, path, body) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await ask(path, { method, ...sent });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail ?? problem.title ?? `The service answered ${answer.status}.`), { status: answer.status });
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const of = (name) => `v1/streams/${encodeURIComponent(name)}`;

export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

// Server-sent events over fetch, since EventSource cannot send a token. Calls `hear(kind, data)`; comes back by itself.
export async function listen(hear, connected) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 15000)) {
    const ended = new AbortController();
    try {
      const answer = await ask("v1/events", { headers: { Accept: "text/event-stream" }, signal: ended.signal });
      if (answer.ok) {
        connected(true);
        wait = 500;
        await read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), hear, ended);
      }
    } catch {
      // the connection ended; the next turn makes another
    }
    connected(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function read(reader, hear, ended) {
  for (let rest = ""; ; ) {
    const silence = setTimeout(() => ended.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split(/\r?\n/);
      const kind = lines.find((line) => line.startsWith("event:"))?.slice(6).trim() ?? "message";
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data) hear(kind, JSON.parse(data));
    }
  }
}
