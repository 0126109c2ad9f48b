// Keeps the page as the server has it, ages counted, and keys at hand. It draws nothing and stores no data; a token stays in
// this tab's session. What it puts into the page comes from this server alone, escaped there; dead letters become text nodes.
"use strict";
const link = document.getElementById("link");
const enter = document.getElementById("enter");
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

function age(seconds) {
  if (seconds < 60) return Math.floor(seconds) + "s";
  if (seconds < 3600) return Math.floor(seconds / 60) + "m";
  if (seconds < 86400) return Math.floor(seconds / 3600) + "h " + Math.floor((seconds % 3600) / 60) + "m";
  return Math.floor(seconds / 86400) + "d";
}

function ages() {
  const now = Date.now();
  for (const each of document.querySelectorAll("time[datetime]")) {
    const seconds = (now - Date.parse(each.dateTime)) / 1000;
    const lasts = "lasts" in each.dataset;
    const text = lasts ? "for " + age(Math.max(0, seconds)) : seconds < 0 ? "in the future" : age(seconds) + " ago";
    if (each.textContent !== text) each.textContent = text;
  }
}

function put(name, part) {
  const place = document.getElementById(name);
  if (!place || place.dataset.digest === part.digest) return;
  const held = document.activeElement;
  const inside = place.contains(held) && held !== place;
  // Who types keeps what is typed: the part is put in place once the field is left.
  if (inside && /^(INPUT|SELECT)$/.test(held.tagName)) {
    held.addEventListener("blur", () => put(name, part), { once: true });
    return;
  }
  const address = inside ? held.getAttribute("href") : null;
  const id = inside ? held.id : null;
  place.innerHTML = part.html;
  place.dataset.digest = part.digest;
  const again = (id && document.getElementById(id)) || (address && place.querySelector('a[href="' + CSS.escape(address) + '"]'));
  if (again) again.focus({ preventScroll: true });
}

let heard = null; // when the server was last heard
let following = false; // one listener a tab

function live(is, text) {
  link.dataset.live = is ? "yes" : "no";
  link.textContent = text;
  document.body.toggleAttribute("data-stale", !is && heard !== null);
}

function since() {
  return heard === null ? "" : " since " + heard.toISOString().slice(11, 19) + " UTC, and what is shown is as old";
}

async function listen() {
  const token = sessionStorage.getItem("floe-token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const at = location.pathname + location.search;
  // A server that hangs keeps its connections open: silence ends them here.
  const silence = new AbortController();
  let alarm = setTimeout(() => silence.abort(), link.dataset.silentMs);
  const answer = await fetch("/events?at=" + encodeURIComponent(at), { headers, cache: "no-store", signal: silence.signal });
  if (answer.status === 401) {
    // Another token may have been given while this one was judged.
    if (sessionStorage.getItem("floe-token") !== token) return true;
    sessionStorage.removeItem("floe-token");
    enter.hidden = false;
    live(false, token ? "this token does not count" : "not live");
    return false;
  }
  if (!answer.ok) throw new Error(String(answer.status));
  enter.hidden = true;
  live(true, "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    heard = new Date();
    clearTimeout(alarm);
    alarm = setTimeout(() => silence.abort(), link.dataset.silentMs);
    const { done, value } = await reader.read();
    if (done) return true;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      for (const [name, part] of Object.entries(JSON.parse(data.slice(6)))) put(name, part);
      ages();
    }
  }
}

async function follow() {
  if (following) return;
  following = true;
  for (let pause = 1000; ; pause = Math.min(pause * 2, 30000)) {
    try {
      if (!(await listen())) {
        following = false;
        return;
      }
      pause = 500;
    } catch (error) {
      // reported below
    }
    live(false, "not live" + since() + ": the server does not answer");
    await wait(pause + Math.random() * 500);
  }
}

function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

async function letters(button) {
  const said = document.getElementById("letters-said");
  const token = sessionStorage.getItem("floe-token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  said.textContent = "asking";
  let found;
  try {
    const answer = await fetch(button.dataset.from, { headers, cache: "no-store" });
    found = await answer.json();
    if (!answer.ok) throw new Error(found.message);
  } catch (error) {
    document.getElementById("letters-shown").replaceChildren();
    said.textContent = error.message;
    return;
  }
  said.textContent = found.letters.length + " of " + found.found + " of the last day, in " + found.table;
  document.getElementById("letters-shown").replaceChildren(...found.letters.map((each) => {
    const letter = element("article", "letter");
    const head = element("p", "", each.place + " ");
    head.append(element("span", "code", each.code), " " + each.title + (each.replayed ? " (replayed)" : "") + " ");
    if (each.at_ms !== null) {
      const time = element("time");
      time.dateTime = new Date(each.at_ms).toISOString();
      head.append(time);
    }
    letter.append(head, element("p", "reason", each.message), element("pre", "", each.lines.join("\n")));
    return letter;
  }));
  ages();
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("floe-theme", document.documentElement.dataset.theme);
}

function step(by) {
  const links = [...document.querySelectorAll("main a[href]")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  if (next) next.focus();
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (location.pathname !== "/") location.assign("/");
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = document.getElementById("q");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "t") theme();
});
document.addEventListener("click", async (event) => {
  if (event.target.id === "show-letters") await letters(event.target);
  const button = event.target.closest("button.copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch (error) {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
document.getElementById("theme").addEventListener("click", theme);
enter.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("floe-token", document.getElementById("token").value.trim());
  document.getElementById("token").value = "";
  follow();
});
const chosen = localStorage.getItem("floe-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
setInterval(ages, 1000);
ages();
follow();
