// Times in the reader's own zone, kept current; sections that ask to be refreshed. Runs on every page,
// needs no WASM, and changes only the data of text nodes that the server wrote.
(() => {
  const skew = Number(document.documentElement.dataset.now) - Date.now();
  const now = () => Date.now() + skew;
  const clock = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
  const length = (s) => {
    s = Math.max(0, Math.round(s));
    const two = (a, u, b, v) => (b ? `${a} ${u} ${b} ${v}` : `${a} ${u}`);
    if (s < 60) return `${s} s`;
    if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
    if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
    return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
  };
  const words = {
    clock: (at) => clock.format(at),
    since: (at) => length((now() - at) / 1000),
    ago: (at) => {
      const s = Math.max(0, (now() - at) / 1000);
      if (s < 45) return "just now";
      if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
      if (s < 86400) return `${Math.round(s / 3600)} h ago`;
      return s < 604800 ? `${Math.round(s / 86400)} d ago` : clock.format(at);
    },
  };
  const tell = (way) => {
    for (const time of document.querySelectorAll(`time[data-way${way ? `="${way}"` : ""}]`)) {
      const at = new Date(time.dateTime);
      const text = words[time.dataset.way](at);
      const node = time.firstChild;
      if (node && node.data !== text) node.data = text;
      if (!time.title) time.title = full.format(at);
    }
  };
  tell();
  setInterval(() => document.hidden || tell("since"), 1000);
  setInterval(() => document.hidden || tell("ago"), 30000);
  document.addEventListener("treeline:drawn", () => tell());
  // A page that the browser kept for "Back" may be somebody else's by now.
  addEventListener("pageshow", (event) => (event.persisted ? location.reload() : tell()));

  // Whoever signs out takes along what this browser remembers of their files.
  document.querySelector("form.person")?.addEventListener("submit", () => {
    for (const key of Object.keys(localStorage)) if (key.startsWith("treeline-upload ")) localStorage.removeItem(key);
  });

  document.cookie = `treeline_offset=${-new Date().getTimezoneOffset()}; Path=/; SameSite=Lax; Max-Age=31536000`;

  // An island says that the sections around it are out of date: they are fetched as this very page and
  // put in place, unless the reader is in one of them.
  let fetching = false;
  let again = false;
  const refresh = async () => {
    again = fetching;
    if (fetching) return;
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const old of document.querySelectorAll("[data-refresh]")) {
        const replacement = fresh.getElementById(old.id);
        if (replacement && !old.contains(document.activeElement)) old.replaceWith(replacement);
      }
      tell();
    } catch {
      // The next change asks again.
    } finally {
      fetching = false;
      if (again) refresh();
    }
  };
  document.addEventListener("treeline:refresh", refresh);

  // Buttons that copy a field. Without a clipboard they stay away, and the field can be selected.
  for (const button of document.querySelectorAll("[data-copy]")) {
    const field = document.getElementById(button.dataset.copy);
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        button.textContent = "Copied";
      } catch {
        button.hidden = true;
      }
    });
  }

  // A section that changes by itself is fetched again while it says so and somebody looks.
  const poll = async () => {
    const section = document.querySelector("[data-poll]");
    if (!section) return;
    await new Promise((passed) => setTimeout(passed, Number(section.dataset.poll)));
    if (!document.hidden) await refresh();
    poll();
  };
  poll();

  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.getElementById("refusal")?.focus();
})();
