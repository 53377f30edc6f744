// The chat page's program: a Responses-mode WebSocket, and a tree of answers. Every answer is a node; a message continues the node it
// is sent from by previous_response_id, so going on twice from one answer makes branches. No dependencies; text never becomes HTML.

const byId = (id) => document.getElementById(id);
const ui = {
  messages: byId("messages"), scroller: byId("scroller"), status: byId("status"), model: byId("model"), fresh: byId("new"),
  composer: byId("composer"), prompt: byId("prompt"), send: byId("send"), stop: byId("stop"),
  temperature: byId("temperature"), maxTokens: byId("max-tokens"), branchNote: byId("branch-note"), branchCancel: byId("branch-cancel"),
  keyForm: byId("key-form"), key: byId("key"), keyError: byId("key-error"),
};

const KEY_STORE = "troupe-api-key";
const FIRST_RETRY_MS = 500, LONGEST_RETRY_MS = 8000;

// ---- The tree. A node: question, answer, state "writing" | "done" | "stopped" | "failed", response id, error, usage.
const root = {children: []};
let leaf = root;        // the conversation shown is the path from the root to here
let beforeBranch = null;  // where "Go back" leads while a branch is begun
let writing = null;     // the node that is being answered

const path = () => {
  const nodes = [];
  for (let node = leaf; node !== root; node = node.parent) nodes.unshift(node);
  return nodes;
};
const newestLeaf = (node) => {
  while (node.children.length > 0) node = node.children[node.children.length - 1];
  return node;
};
// What comes before a question: the nearest answer upwards that the server keeps, and as messages what it does not (answers that were
// stopped; all of them after it has forgotten).
const before = (node) => {
  const messages = [];
  for (; node !== root && !node.kept; node = node.parent) {
    if (node.state === "failed") continue;
    if (node.answer) messages.unshift({role: "assistant", content: node.answer});
    messages.unshift({role: "user", content: node.question});
  }
  return {previous: node === root ? null : node.id, messages};
};

// ---- Drawing
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// Fenced code, `code` and **bold**; all else stays as it is.
const drawText = (target, text) => {
  target.replaceChildren();
  text.split(/^```/m).forEach((part, index) => {
    if (index % 2 === 1) {
      const body = part.slice(part.indexOf("\n") + 1).replace(/\n$/, "");
      target.append(element("pre", {}, element("code", {textContent: body})));
      return;
    }
    for (const piece of part.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
      if (/^`[^`\n]+`$/.test(piece)) target.append(element("code", {textContent: piece.slice(1, -1)}));
      else if (/^\*\*[^*\n]+\*\*$/.test(piece)) target.append(element("strong", {textContent: piece.slice(2, -2)}));
      else if (piece) target.append(piece);
    }
  });
};

const usageText = (node) => {
  if (!node.usage) return "";
  const tokens = node.usage.output_tokens, seconds = (node.endedAt - node.firstAt) / 1000;
  const parts = [`${tokens} token${tokens === 1 ? "" : "s"}`];
  if (tokens > 4 && seconds > 0) parts.push(`${((tokens - 1) / seconds).toFixed(1)} per second`);
  const cached = node.usage.input_tokens_details?.cached_tokens ?? 0;
  if (cached > 0) parts.push(`${cached} of ${node.usage.input_tokens} from cache`);
  if (node.state === "stopped") parts.push(node.why === "max_output_tokens" ? "cut at the longest answer" : "stopped");
  return parts.join(" · ");
};

const drawAnswer = (node) => {
  if (!node.view) return;
  node.view.dataset.state = node.state;
  drawText(node.textView, node.answer);
  node.view.querySelector(".error")?.remove();
  if (node.error) node.textView.after(element("p", {className: "error", textContent: node.error}));
  node.actions.hidden = node.state === "writing";
  node.actions.querySelector(".usage").textContent = usageText(node);
  node.actions.querySelector(".branch").hidden = node.state === "failed";
};

const messageViews = (node) => {
  const question = element("div", {className: "message user", textContent: node.question});
  node.textView = element("div", {className: "text"});
  const branch = element("button", {type: "button", className: "branch", textContent: "Branch from here",
    title: "Continue from this answer in a new branch"});
  branch.addEventListener("click", () => beginBranch(node));
  node.actions = element("div", {className: "actions"}, branch, element("span", {className: "usage quiet"}));
  node.view = element("div", {className: "message assistant"}, node.textView, node.actions);
  drawAnswer(node);
  return [question, node.view];
};

// The ways on from a node, where there is more to choose than what is shown below it.
const branchList = (node, shownChild) => {
  if (node.children.length === 0 || (node.children.length === 1 && node.children[0] === shownChild)) return null;
  const list = element("ul", {className: "branches"});
  list.setAttribute("aria-label", node === root ? "Conversations" : "Branches from this answer");
  node.children.forEach((child, index) => {
    const open = element("button", {type: "button", textContent: `${index + 1} · ${child.question}`, title: child.question});
    open.setAttribute("aria-current", String(child === shownChild));
    open.addEventListener("click", () => show(newestLeaf(child)));
    list.append(element("li", {}, open));
  });
  return list;
};

const draw = () => {
  const nodes = path(), views = [];
  const add = (node, next) => {
    const list = branchList(node, next);
    if (list) views.push(list);
  };
  add(root, nodes[0]);
  nodes.forEach((node, index) => {
    views.push(...messageViews(node));
    add(node, nodes[index + 1]);
  });
  ui.messages.replaceChildren(...views);
  ui.branchNote.hidden = beforeBranch === null;
  scrollDown(true);
};

const scrollDown = (always) => {
  const view = ui.scroller;
  if (always || view.scrollHeight - view.scrollTop - view.clientHeight < 120) view.scrollTop = view.scrollHeight;
};

const show = (node) => {
  leaf = node;
  beforeBranch = null;
  draw();
  ui.prompt.focus();
};

const beginBranch = (node) => {
  if (writing) return;
  beforeBranch = node === leaf ? null : leaf;
  leaf = node;
  draw();
  ui.prompt.focus();
};

const setStatus = (text, state) => {
  ui.status.textContent = text;
  ui.status.dataset.state = state;
};

const updateControls = () => {
  const open = socket?.readyState === WebSocket.OPEN;
  ui.prompt.disabled = !open;
  ui.send.disabled = !open || writing !== null || ui.prompt.value.trim() === "";
  ui.send.hidden = writing !== null;
  ui.stop.hidden = writing === null;
  ui.fresh.disabled = writing !== null;
  if (open) setStatus(writing ? "Writing…" : "Ready", writing ? "busy" : "ready");
};

// Deltas come faster than the screen changes: draw once a frame.
let drawPending = false;
const drawSoon = (node) => {
  if (drawPending) return;
  drawPending = true;
  requestAnimationFrame(() => {
    drawPending = false;
    drawAnswer(node);
    scrollDown(false);
  });
};

// ---- Talking
const ask = (question) => {
  const node = {parent: leaf, children: [], question, answer: "", state: "writing", id: null, kept: false, error: "", usage: null};
  leaf.children.push(node);
  leaf = node;
  beforeBranch = null;
  writing = node;
  draw();
  request(node);
  updateControls();
};

const request = (node) => {
  const {previous, messages} = before(node.parent);
  const event = {type: "response.create", input: [...messages, {role: "user", content: node.question}]};
  if (ui.model.textContent) event.model = ui.model.textContent;
  if (previous) event.previous_response_id = previous;
  const temperature = Number.parseFloat(ui.temperature.value), maxTokens = Number.parseInt(ui.maxTokens.value, 10);
  if (Number.isFinite(temperature)) event.temperature = temperature;
  if (Number.isFinite(maxTokens)) event.max_output_tokens = maxTokens;
  socket.send(JSON.stringify(event));
};

// The server has forgotten the conversation (a restart, or it is too old): tell it all of it again, once.
const tellAgain = (node) => {
  for (let above = node.parent; above !== root; above = above.parent) above.kept = false;
  node.toldAgain = true;
  request(node);
};

const finish = (state, error = "") => {
  const node = writing;
  if (!node) return;
  writing = null;
  node.state = state;
  node.error = error;
  node.endedAt = performance.now();
  drawAnswer(node);
  scrollDown(false);
  updateControls();
};

const onEvent = (event) => {
  const node = writing;
  if (!node) return;
  switch (event.type) {
    case "response.created": node.id = event.response.id; break;
    case "response.output_text.delta":
      node.firstAt ??= performance.now();
      node.answer += event.delta;
      drawSoon(node);
      break;
    case "response.completed":
    case "response.incomplete":
      node.usage = event.response.usage;
      node.why = event.response.incomplete_details?.reason;
      node.kept = true;
      finish(event.type === "response.completed" ? "done" : "stopped");
      break;
    case "response.failed": finish("failed", event.response.error?.message ?? "The answer failed."); break;
    case "error":
      if (event.error?.code === "previous_response_not_found" && !node.toldAgain) return tellAgain(node);
      finish("failed", event.error?.message ?? "The server refused the request.");
      break;
  }
};

const stop = () => {
  if (writing && socket?.readyState === WebSocket.OPEN)
    socket.send(JSON.stringify({type: "response.cancel", ...(writing.id && {response_id: writing.id})}));
};

// ---- Connecting
let socket = null;
let retryMs = FIRST_RETRY_MS;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The server's readiness, asked for until it is there. Also tells whether a key is needed.
const untilReady = async () => {
  for (;;) {
    try {
      const answer = await fetch("/ready", {cache: "no-store"});
      if (answer.ok) return await answer.json();
      const body = await answer.json().catch(() => ({}));
      const words = {draining: "The server is shutting down", stuck: "The model does not answer; waiting…"};
      setStatus(words[body.status] ?? "Loading the model…", "wait");
    } catch {
      setStatus("The server cannot be reached", "lost");
    }
    await pause(1000);
  }
};

const authorized = (key) => (key ? {headers: {Authorization: `Bearer ${key}`}, cache: "no-store"} : {cache: "no-store"});

const askForKey = (message) => {
  sessionStorage.removeItem(KEY_STORE);
  ui.keyForm.hidden = false;
  ui.keyError.hidden = !message;
  ui.keyError.textContent = message;
  setStatus("API key needed", "wait");
  ui.key.focus();
};

const connect = async () => {
  const {key_needed: keyNeeded} = await untilReady();
  const key = sessionStorage.getItem(KEY_STORE) ?? "";
  if (keyNeeded && !key) return askForKey("");
  // A refused WebSocket tells scripts no reason; a plain request does.
  const answer = await fetch("/v1/models", authorized(key)).catch(() => null);
  if (answer?.status === 401) return askForKey("The server does not accept this key.");
  if (!answer?.ok) return retry();
  ui.model.textContent = (await answer.json()).data[0]?.id ?? "";
  ui.keyForm.hidden = true;
  const protocols = key ? ["troupe.v1", `openai-insecure-api-key.${key}`] : ["troupe.v1"];
  try {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/responses`, protocols);
  } catch {
    return askForKey("This key has characters that a browser cannot send.");
  }
  socket.addEventListener("open", () => {
    retryMs = FIRST_RETRY_MS;
    updateControls();
    ui.prompt.focus();
  });
  socket.addEventListener("message", (message) => onEvent(JSON.parse(message.data)));
  socket.addEventListener("close", () => {
    finish("failed", "The connection was lost.");
    updateControls();
    retry();
  });
};

const retry = async () => {
  setStatus("Connecting again…", "lost");
  await pause(retryMs);
  retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
  connect();
};

// ---- Input
const grow = () => {
  ui.prompt.style.height = "auto";
  ui.prompt.style.height = `${ui.prompt.scrollHeight + 2}px`;
};

ui.composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const question = ui.prompt.value.trim();
  if (!question || writing || socket?.readyState !== WebSocket.OPEN) return;
  ui.prompt.value = "";
  grow();
  ask(question);
});
ui.prompt.addEventListener("input", () => {
  grow();
  updateControls();
});
ui.prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ui.composer.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
ui.stop.addEventListener("click", stop);
ui.fresh.addEventListener("click", () => show(root));
ui.branchCancel.addEventListener("click", () => show(beforeBranch ?? leaf));
ui.keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!ui.key.value) return;
  sessionStorage.setItem(KEY_STORE, ui.key.value);
  ui.key.value = "";
  ui.keyError.hidden = true;
  connect();
});

connect();
