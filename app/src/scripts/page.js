// Keeps timestamps current in the reader's own time zone; refreshes sections that ask for it. Runs on every page, needs
// no WASM, and changes only text nodes that the server rendered.
(() => {
  const language = document.documentElement.lang;
  // Texts of the page in the form of app/src/speech/form.rs, by key.
  let texts;
  const text = (key, args = {}) => {
    texts ??= new Map(document.documentElement.dataset.words.split("\n").slice(1).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
    return (texts.get(key) ?? key).replace(/{(\w+)}/g, (_, name) => (typeof args[name] === "number" ? number(args[name]) : args[name]));
  };
  window.treelineText = text;
  // The first use of Intl takes 20 ms, and on a phone 100: small numbers and times that the page already shows need none.
  let numbers;
  const number = (n) => (n >= 0 && n < 1000 && Number.isInteger(n) ? String(n) : (numbers ??= new Intl.NumberFormat(language)).format(n));
  window.treelineNumber = number;
  const drawnAt = Number(document.documentElement.dataset.now);
  const skew = drawnAt - Date.now();
  const now = () => Date.now() + skew;
  // A formatter takes milliseconds to create, so each is created on first use.
  const formats = new Map();
  const format = (at, options) => {
    if (!formats.has(options)) formats.set(options, new Intl.DateTimeFormat(language, options));
    const parts = formats.get(options).formatToParts(at);
    // Chromium writes a wide space before "AM", at which a line may break; the locale has a narrow one.
    return parts.map(({ value }, n) => (value === " " && parts[n + 1]?.type === "dayPeriod" ? "\u202f" : value)).join("");
  };
  // The server writes hours as the locale does: `9:03 AM`, `09:03`. Beside a date, browsers would choose the number of digits.
  let dateFormats;
  const dateFormat = (name) => {
    if (!dateFormats) {
      const nine = new Intl.DateTimeFormat(language, { timeStyle: "short", timeZone: "UTC" }).formatToParts(9 * 3600000);
      const hours = nine.find(({ type }) => type === "hour").value;
      const time = { hour: hours.length > 1 ? "2-digit" : "numeric", minute: "2-digit" };
      const clock = { day: "numeric", month: "short", ...time };
      dateFormats = {
        time,
        clock,
        second: { ...clock, second: "2-digit" },
        clockWithYear: { dateStyle: "medium", timeStyle: "short" },
        secondWithYear: { dateStyle: "medium", timeStyle: "medium" },
      };
    }
    return dateFormats[name];
  };
  // The year is written when it is not this one.
  const dated = (name, at) => (at.getFullYear() === new Date(now()).getFullYear() ? name : `${name}WithYear`);
  const full = { dateStyle: "full", timeStyle: "long" };
  const length = (s) => {
    s = Math.max(0, Math.round(s));
    const two = (a, u, b, v) => text(`time-${u}`, { n: a }) + (b ? ` ${text(`time-${v}`, { n: b })}` : "");
    if (s < 60) return text("time-seconds", { n: s });
    if (s < 3600) return two(Math.floor(s / 60), "minutes", s % 60, "seconds");
    if (s < 86400) return two(Math.floor(s / 3600), "hours", Math.floor((s % 3600) / 60), "minutes");
    return two(Math.floor(s / 86400), "days", Math.floor((s % 86400) / 3600), "hours");
  };
  const words = {
    clock: (at) => format(at, dateFormat(dated("clock", at))),
    time: (at) => format(at, dateFormat("time")),
    second: (at) => format(at, dateFormat(dated("second", at))),
    exact: (at) => {
      const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0"));
      return `${time.join(":")}.${String(at.getMilliseconds()).padStart(3, "0")}`;
    },
    since: (at) => length((now() - at) / 1000),
    ago: (at) => {
      const s = Math.max(0, (now() - at) / 1000);
      if (s < 45) return text("time-now");
      if (s < 3600) return text("time-minutes-ago", { n: Math.max(1, Math.floor(s / 60)) });
      if (s < 86400) return text("time-hours-ago", { n: Math.floor(s / 3600) });
      const days = Math.floor(s / 86400);
      if (days === 1) return text("time-one-day-ago");
      return s < 604800 ? text("time-days-ago", { n: days }) : words.clock(at);
    },
  };
  // After a week, `ago` is a clock time.
  const isClock = (format, at) => (format === "ago" ? drawnAt - at >= 604800000 : ["clock", "time", "second"].includes(format));
  const offset = Number(document.documentElement.dataset.offset);
  const written = new WeakMap();
  /** True if the clock time is as the server wrote it, with the offset that it has in the reader's time zone. */
  const isWritten = (time, at) => {
    const before = written.get(time) ?? time.dateTime;
    written.set(time, time.dateTime);
    return before === time.dateTime && at.getTimezoneOffset() === -offset;
  };
  const writeTimes = (kind) => {
    for (const time of document.querySelectorAll(`time[data-format${kind ? `="${kind}"` : ""}]`)) {
      const at = new Date(time.dateTime);
      if (isClock(time.dataset.format, at) && isWritten(time, at)) continue;
      const text = words[time.dataset.format](at);
      const node = time.firstChild;
      if (node && node.data !== text) node.data = text;
    }
  };
  // In their own tasks: the first formatter loads the reader's locale, and the task of this script also draws the page.
  setTimeout(writeTimes);
  // The server writes the times of the next page with it.
  setTimeout(() => {
    document.cookie = `treeline_offset=${-new Date().getTimezoneOffset()}; Path=/; SameSite=Lax; Max-Age=31536000`;
  });
  // The full date is set as the title on hover, and on focus for keyboard users.
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, ({ target }) => {
      const time = target.closest?.("time[data-format]");
      if (time && !time.title) time.title = format(new Date(time.dateTime), full);
    });
  }
  setInterval(() => document.hidden || writeTimes("since"), 1000);
  setInterval(() => document.hidden || writeTimes("ago"), 30000);
  document.addEventListener("treeline:drawn", () => writeTimes());
  // A page from the back/forward cache may belong to another person by now.
  addEventListener("pageshow", (event) => (event.persisted ? location.reload() : undefined));

  // Signing out deletes the remembered uploads of this browser.
  document.getElementById("sign-out")?.addEventListener("submit", () => {
    for (const key of Object.keys(localStorage)) if (key.startsWith("treeline-upload ")) localStorage.removeItem(key);
  });

  // Forms of the frame are sent beside the page, which stays as it is with what is typed on it.
  const FRAME = ["/theme", "/sidebar", "/notices/read"];
  const sendFrame = async (form, submitter) => {
    const body = new URLSearchParams(new FormData(form));
    if (submitter?.name) body.set(submitter.name, submitter.value);
    const answer = await fetch(form.action, { method: "POST", body }).catch(() => undefined);
    if (!answer?.ok) {
      // The page that it opens says why.
      form.dataset.opens = "";
      return form.requestSubmit(submitter);
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const name of ["theme", "sidebar"]) {
      const value = fresh.documentElement.dataset[name];
      if (value) document.documentElement.dataset[name] = value;
      else delete document.documentElement.dataset[name];
    }
    for (const part of ["#notices-menu", 'form[action="/theme"]', 'form[action="/sidebar"]']) {
      const now = fresh.querySelector(part);
      for (const old of now ? document.querySelectorAll(part) : []) morph(old, now.cloneNode(true));
    }
  };

  // A form of work that the server cannot carry out for the moment is sent again from the error page. Other forms, and a
  // job that has a secret, are not remembered.
  const SENT = "treeline-sent-form";
  const remember = (action, fields) => {
    if (!/^\/(imports|jobs|items|bulk|schedules|views|dead)\b/.test(action) || /secret/i.test(fields)) return;
    try {
      sessionStorage.setItem(SENT, JSON.stringify({ action, fields }));
    } catch {
      // It is too large, or the browser stores nothing.
    }
  };
  let lost = null;
  try {
    lost = JSON.parse(sessionStorage.getItem(SENT));
    sessionStorage.removeItem(SENT);
  } catch {
    // The browser stores nothing.
  }
  const resend = document.getElementById("send-again");
  // After a redirect, the form was received, and only the page that it leads to failed.
  const wasReceived = performance.getEntriesByType("navigation")[0]?.redirectCount > 0;
  if (resend && !wasReceived && lost?.action === location.pathname) {
    resend.setAttribute("action", lost.action);
    resend.hidden = false;
    for (const [name, value] of new URLSearchParams(lost.fields)) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name, value });
      resend.append(field);
    }
  }

  // The same form is sent once: a second click would find what the first one has done, and call it a mistake. Another
  // press of a button counts again after a while, because the reader may have stopped the first request.
  const sent = new WeakMap();
  addEventListener("submit", (event) => {
    const { target: form, submitter, timeStamp } = event;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (FRAME.includes(form.getAttribute("action")) && !("opens" in form.dataset)) {
      event.preventDefault();
      return sendFrame(form, submitter);
    }
    const fields = new URLSearchParams(new FormData(form, submitter)).toString();
    if (!form.hasAttribute("enctype")) remember(form.getAttribute("action"), fields);
    if (form.matches("[data-review]")) return;
    const last = sent.get(form);
    if (last?.fields === fields && timeStamp - last.timeStamp < 10_000) return event.preventDefault();
    sent.set(form, { fields, timeStamp });
  });

  // A flash message is shown once: not after a reload, not after "Back", and not to whoever receives the URL.
  const here = new URL(location.href);
  if (here.searchParams.has("did")) {
    here.searchParams.delete("did");
    history.replaceState(history.state, "", here);
  }

  // Updates the page in place to a newer rendering. Unchanged elements are not replaced, so focus, scroll position,
  // typed text, selection and open details stay. Children are matched by id or `data-key`.
  const key = (node) => node.id || node.getAttribute?.("data-key") || "";
  // Lists do not move under a reader: while the pointer or the focus is on a row, rows change in place, and none is added,
  // moved or removed. New ones wait behind a button.
  const ROW = ":is(tr, li)[data-key]";
  const HELD = `main ${ROW}:is(${matchMedia("(hover: hover)").matches ? ":hover, " : ""}:focus-within)`;
  let held = false;
  const morph = (old, fresh) => {
    // Most of a page is unchanged, and the browser compares faster than a script.
    if (old.isEqualNode(fresh)) return;
    if (held && old.querySelector?.(ROW) && !fresh.querySelector?.(ROW)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || key(old) !== key(fresh)) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    // Timestamps are in the reader's zone here; islands render themselves.
    if (old.localName === "leptos-island") return;
    if (old.localName === "time" && old.dateTime === fresh.dateTime && old.dataset.format === fresh.dataset.format) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) === value || name === "open") continue;
      // A second click sends the Idempotency-Key of the first one.
      if (name === "value" && old.type === "hidden" && old.name === "key") continue;
      old.setAttribute(name, value);
      // The checkbox belongs to another row now.
      if (name === "value" && old.type === "checkbox") old.checked = fresh.checked;
    }
    // A read-only text is a source of a copy button.
    if (old.localName === "select" || (old.localName === "textarea" && !old.readOnly)) return;
    const childByKey = new Map([...old.children].filter(key).map((child) => [key(child), child]));
    if (held && old.querySelector(`:scope > ${ROW}`)) {
      for (const row of fresh.children) if (childByKey.has(key(row))) morph(childByKey.get(key(row)), row);
      return;
    }
    const remove = (gone) => {
      if (!held || !gone.querySelector?.(ROW)) gone.remove();
    };
    // First, so that what stays is not moved: a moved element loses its focus, selection and scroll position.
    const staying = new Set([...fresh.children].map(key));
    for (const [name, child] of childByKey) if (!staying.has(name)) remove(child);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = childByKey.get(key(child));
      if (same) {
        childByKey.delete(key(child));
        if (same === at) at = at.nextSibling;
        else old.insertBefore(same, at);
        morph(same, child);
      } else if (at && at.nodeName === child.nodeName && !key(child) && !key(at)) {
        const here = at;
        at = at.nextSibling;
        morph(here, child);
      } else {
        old.insertBefore(child, at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      remove(gone);
    }
  };

  // Refreshes the outdated sections, all or those of a selector: fetches this page and puts the sections in place.
  const ALL = "[data-refresh]";
  // A log begins at its end, and follows while the reader is there.
  const TAIL = "[data-tail]";
  for (const tail of location.hash.startsWith("#L") ? [] : document.querySelectorAll(TAIL)) tail.scrollTop = tail.scrollHeight;
  const more = document.getElementById("show-new");
  // A list was held back; the reader wants it now.
  let waiting = false;
  let wanted = false;
  /** Number of rows that only the newer list has. */
  const news = (old, fresh, kind) => {
    const keys = new Set([...old.querySelectorAll(kind + ROW)].map(key));
    return [...fresh.querySelectorAll(kind + ROW)].filter((row) => !keys.has(key(row))).length;
  };
  let fetching = false;
  let again = "";
  // Sections of a failed refresh, which may be of the last change: it is repeated after longer and longer pauses.
  let failedSections = "";
  let failures = 0;
  let repeat = 0;
  const either = (one, other) => (one && one !== other ? ALL : other);
  const repeatFailed = () => failedSections && !document.hidden && refresh(failedSections);
  document.addEventListener("visibilitychange", repeatFailed);
  const refresh = async (sections = ALL) => {
    if (fetching) {
      again = either(again, sections);
      return;
    }
    fetching = true;
    clearTimeout(repeat);
    sections = either(failedSections, sections);
    failedSections = "";
    // A page may have its sections drawn by its form instead.
    const asked = { url: location.href, within: document, init: {} };
    if (sections === ALL) document.dispatchEvent(new CustomEvent("treeline:refreshing", { detail: asked }));
    let failed = true;
    let gone;
    let refused;
    try {
      const answer = await fetch(asked.url, { signal: AbortSignal.timeout(30_000), ...asked.init, headers: { Accept: "text/html" } });
      gone = new URL(answer.url).pathname === "/sign-in" ? "signed-out" : [404, 410].includes(answer.status) && "removed";
      if (gone) document.dispatchEvent(new CustomEvent("treeline:gone", { detail: gone }));
      refused = answer.status >= 400 && answer.status < 500 && ![408, 429].includes(answer.status);
      if (gone || !answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      // The new sections may have icons that this page had none of.
      for (const icon of fresh.querySelectorAll("symbol")) if (!document.getElementById(icon.id)) document.querySelector(".sprite defs").append(icon);
      const tails = [...document.querySelectorAll(TAIL)].filter((tail) => tail.scrollTop + tail.clientHeight > tail.scrollHeight - 4);
      let count = 0;
      if (sections === ALL) waiting = false;
      for (const old of asked.within.querySelectorAll(sections)) {
        const replacement = fresh.getElementById(old.id);
        // A refused form stays with its reason until it is sent again, and so does the answer to a form.
        if (!replacement || "answer" in old.dataset || old.querySelector("#refusal")) continue;
        // Selected rows stay as they are until an action is taken.
        const selected = !wanted && old.querySelector(".pick input:checked");
        held = !wanted && asked.within === document && Boolean(old.querySelector(HELD));
        if (held || selected) {
          waiting = true;
          count = Math.max(count, news(old, replacement, "tr"), news(old, replacement, "li"));
        }
        if (!selected) morph(old, replacement);
        held = false;
      }
      for (const tail of tails) tail.scrollTop = tail.scrollHeight;
      if (sections === ALL && more) {
        wanted = false;
        more.hidden = !count;
        more.textContent = text("script-show-new", { n: count });
      }
      writeTimes();
      failed = false;
    } catch {
      // It is repeated below.
    } finally {
      fetching = false;
      const next = again;
      again = "";
      // A form that was sent instead says so, and has a button.
      if (failed && !gone && !refused && asked.within === document) {
        failedSections = sections;
        // Not at the moment at which all other pages come back, too.
        repeat = setTimeout(repeatFailed, ([1_000, 2_000, 5_000, 10_000][failures] ?? 30_000) * (0.5 + Math.random()));
        failures += 1;
      } else {
        failures = 0;
      }
      if (sections === ALL && next !== ALL) document.dispatchEvent(new CustomEvent("treeline:refreshed", { detail: { failed } }));
      if (next) refresh(next);
    }
  };
  document.addEventListener("treeline:refresh", ({ detail }) => refresh(detail ?? ALL));
  more?.addEventListener("click", () => {
    wanted = true;
    refresh();
  });
  // The reader has left the list.
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, () => {
      if (!waiting || document.querySelector(`${HELD}, .pick input:checked`)) return;
      waiting = false;
      refresh();
    });
  }
  // An opening confirmation shows current numbers.
  document.addEventListener("click", ({ target }) => {
    const menu = target.closest?.("summary")?.parentElement;
    if (menu && !menu.open && menu.querySelector(".confirm") && menu.closest("[data-refresh]")) refresh();
  });

  // Copy buttons, also on sections that are rendered later. Without a clipboard they stay hidden.
  for (const button of document.querySelectorAll("[data-copy][hidden]")) button.hidden = !navigator.clipboard;
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest?.("[data-copy]");
    const field = button && document.getElementById(button.dataset.copy);
    if (!field) return;
    if (!field.hidden) field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      (button.querySelector("span") ?? button).textContent = text("script-copied");
    } catch {
      button.hidden = true;
    }
  });

  // Menus close on a click outside and on Escape.
  const close = (left) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(left)) menu.open = false;
  };
  document.addEventListener("click", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.activeElement?.closest("details.menu[open]")?.querySelector("summary").focus();
    close(null);
  });

  document.getElementById("refusal")?.focus();
})();
