// One way to the service: the token stays in memory, a problem becomes an error with the service's own sentence.
let token = null;
let asked = null;

function askToken() {
  const dialog = document.getElementById("token-dialog");
  asked ??= new Promise((resolve) => {
    const form = document.getElementById("token-form");
    form.onsubmit = () => {
      token = document.getElementById("token").value.trim();
      document.getElementById("token").value = "";
      asked = null;
      resolve();
    };
    dialog.oncancel = (event) => event.preventDefault();
    dialog.showModal();
  });
  return asked;
}

function headers(more = {}) {
  return token === null ? more : { ...more, Authorization: `Bearer ${token}` };
}

async function call(method, path, body) {
  for (;;) {
    const used = token;
    const answer = await fetch(path, {
      method,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.status === 401) {
      if (used === token) await askToken();
      continue;
    }
    if (answer.ok) return answer.status === 204 ? null : answer.json();
    const problem = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(problem.detail ?? problem.title ?? `The service answered ${answer.status}.`), { status: answer.status });
  }
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
    try {
      const answer = await fetch("v1/events", { headers: headers({ Accept: "text/event-stream" }) });
      if (answer.status === 401) await askToken();
      if (answer.ok) {
        connected(true);
        wait = 500;
        await read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), hear);
      }
    } catch {
      // the connection ended; the next turn makes another
    }
    connected(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function read(reader, hear) {
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
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
