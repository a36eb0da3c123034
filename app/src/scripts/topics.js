// Sections that name topics (`data-topics`) are fetched again when one of these says that something changed, and put in place
// without a jump: what has the focus keeps it, what was typed or ticked or opened stays. At most four times a second, and
// only while somebody looks. What a topic says itself is written at once. Runs on every page; pages are whole without it.
(() => {
  const SHORTEST = 250;
  // What changes all the time is fetched less often.
  const PACES = { overview: 2_000, roots: 1_000 };
  const LATER = [1_000, 2_000, 5_000, 10_000, 30_000];
  const root = document.documentElement;
  const watched = () => {
    const topics = [...document.querySelectorAll("[data-topics]")].flatMap((section) => section.dataset.topics.split(" "));
    return new Set(topics.filter(Boolean));
  };
  if (!watched().size || !window.EventSource) return;

  const sources = new Map();
  let tries = 0;
  let timer = 0;
  // The page has just been drawn.
  let refreshedAt = performance.now();
  let refreshed = false;
  let refreshing = 0;
  // What was said of an item last, apart from how far it is.
  let said = "";

  const refresh = (pace = SHORTEST) => {
    clearTimeout(refreshing);
    const wait = Math.max(0, refreshedAt + pace - performance.now());
    refreshing = setTimeout(() => {
      refreshedAt = performance.now();
      refreshed = true;
      document.dispatchEvent(new Event("treeline:refresh"));
    }, wait);
  };
  const number = new Intl.NumberFormat("en-US");
  const write = (element, text) => {
    if (element && element.textContent !== text) element.textContent = text;
  };
  const at = (time, value) => {
    if (!time || !value || time.dateTime === value) return;
    time.dateTime = value;
    time.removeAttribute("title");
  };
  // What can be written without asking: true where that is all that changed.
  const told = {
    overview({ stats }, kind) {
      // What was counted when the page was drawn is what it shows.
      return kind === "snapshot" && !refreshed && document.querySelector("#counted time")?.dateTime === stats.counted_at;
    },
    failures({ groups, dead }) {
      for (const count of document.querySelectorAll("[data-dead]")) write(count, number.format(dead));
      const known = new Map(groups.map((group) => [`${group.type} ${group.fingerprint}`, group]));
      for (const line of document.querySelectorAll("[data-group]")) {
        const group = known.get(line.dataset.group);
        if (!group) continue;
        write(line.querySelector("[data-count]"), number.format(group.count));
        at(line.querySelector("[data-last] time"), group.last_seen_at);
      }
      document.dispatchEvent(new Event("treeline:drawn"));
      // Rows, buttons and which groups there are is the server's to draw.
      return false;
    },
    item(item) {
      const progress = document.getElementById("progress");
      if (progress) {
        const { done, total, message } = item.progress ?? {};
        const share = total > 0 ? Math.min(100, (100 * (done ?? 0)) / total) : 0;
        progress.hidden = !item.progress || !item.assignment;
        progress.querySelector("[data-share]")?.setAttribute("width", `${share}%`);
        const of = done === undefined || done === null ? "" : total ? `${number.format(done)} of ${number.format(total)}` : number.format(done);
        write(progress.querySelector("[data-done]"), [of, message].filter(Boolean).join(" · "));
      }
      at(document.querySelector("[data-beat] time"), item.assignment?.last_heartbeat_at);
      document.dispatchEvent(new Event("treeline:drawn"));
      const { progress: _progress, assignment, version: _version, updated_at: _updated, ...rest } = item;
      const now = JSON.stringify([rest, assignment?.worker_id, assignment?.since]);
      const drawn = Number(document.querySelector("[data-version]")?.dataset.version);
      const same = said === now || (!said && drawn === item.version);
      said = now;
      return same;
    },
  };

  const hear = (topic, kind, text) => {
    tries = 0;
    root.dataset.stream = "live";
    const data = JSON.parse(text);
    const tell = told[topic.split(":")[0]];
    const done = tell?.(data, kind) ?? false;
    // What the page was drawn from may be older than what is told first.
    const drawn = Number(root.dataset.now) * 1_000;
    const known = kind === "snapshot" && !refreshed && data.version > 0 && !topic.startsWith("item:") && data.version < drawn;
    if (done || known) return;
    refresh(PACES[topic] ?? SHORTEST);
  };
  const broken = () => {
    root.dataset.stream = "away";
    stop();
    clearTimeout(timer);
    const wait = LATER[Math.min(tries, LATER.length - 1)] * (0.5 + Math.random());
    tries += 1;
    timer = setTimeout(start, wait);
  };
  const start = () => {
    if (document.hidden) return;
    for (const topic of watched()) {
      if (sources.has(topic)) continue;
      const source = new TreelineSource(topic);
      for (const kind of ["snapshot", "change"]) source.addEventListener(kind, (event) => hear(topic, kind, event.data));
      // Gone: what there is to see of that is the server's to draw.
      source.addEventListener("removed", () => refresh());
      for (const kind of ["bye", "busy"]) source.addEventListener(kind, broken);
      source.onerror = () => source.readyState === EventSource.CLOSED && broken();
      sources.set(topic, source);
    }
  };
  const stop = () => {
    for (const source of sources.values()) source.close();
    sources.clear();
  };
  // A tab that is hidden for a moment keeps what it watches.
  let leaving = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    clearTimeout(timer);
    if (document.hidden) leaving = setTimeout(stop, 5_000);
    else start();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  start();
})();
