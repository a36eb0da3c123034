// Sections with `data-topics` are refreshed when a message of one of these topics arrives, in place: focus, typed text,
// selection and open details stay. At most four times a second, and only while the page is visible. Values in the
// message itself are written at once. The indicator in the top bar shows how current the page is. Runs on every page;
// pages are complete without it.
(() => {
  const SHORTEST = 250;
  const ALL = "[data-refresh]";
  // Topics that change all the time are refreshed less often.
  const PACES = { overview: 2_000, roots: 1_000, deliveries: 1_000, operations: 1_000 };
  const LATER = [1_000, 2_000, 5_000, 10_000, 30_000];
  // Shorter outages are not shown, and longer ones make the page stale.
  const OUTAGE = 3_000;
  const STALE_AFTER = 15_000;
  const root = document.documentElement;
  // In microseconds, like versions; clocks of two servers may differ.
  const readBefore = (Number(root.dataset.read) - 2_000) * 1_000;
  const watched = () => {
    const topics = [...document.querySelectorAll("[data-topics]")].flatMap((section) => section.dataset.topics.split(" "));
    return new Set(topics.filter(Boolean));
  };
  if (!watched().size || !window.EventSource) return;

  const sources = new Map();
  // Topics that the server refused.
  const refused = new Set();
  let tries = 0;
  let timer = 0;
  // The page has just been rendered.
  let refreshedAt = performance.now();
  let refreshed = false;
  let refreshing = 0;
  // Last state of the item, without its progress.
  let lastItem = "";

  const pill = document.getElementById("stream");
  const show = (state) => {
    if (root.dataset.stream === state) return;
    root.dataset.stream = state;
    let said = "";
    for (const word of pill?.querySelectorAll("[data-stream]") ?? []) {
      word.hidden = word.dataset.stream !== state;
      if (!word.hidden && word.localName === "a" && word.hasAttribute("href")) said = word.textContent;
    }
    // Read out only if there is something to do.
    if (pill) pill.lastElementChild.textContent = said;
  };
  // Timers of an outage.
  let outage = [];
  const connected = () => {
    for (const timer of outage) clearTimeout(timer);
    outage = [];
  };
  const lost = () => {
    if (outage.length) return;
    const since = new Date().toISOString();
    const stale = () => {
      at(pill?.querySelector("time"), since);
      document.dispatchEvent(new Event("treeline:drawn"));
      show("stale");
    };
    outage = [setTimeout(show, OUTAGE, "reconnecting"), setTimeout(stale, STALE_AFTER)];
  };

  // Sections to be refreshed: a notice concerns the bell alone.
  let outdated = "";
  const refresh = (pace = SHORTEST, sections = ALL) => {
    clearTimeout(refreshing);
    outdated = outdated && outdated !== sections ? ALL : sections;
    const wait = Math.max(0, refreshedAt + pace - performance.now());
    refreshing = setTimeout(() => {
      refreshedAt = performance.now();
      refreshed ||= outdated === ALL;
      document.dispatchEvent(new CustomEvent("treeline:refresh", { detail: outdated }));
      outdated = "";
    }, wait);
  };
  const number = window.treelineNumber;
  const write = (element, text) => {
    if (element && element.textContent !== text) element.textContent = text;
  };
  const at = (time, value) => {
    if (!time || !value || time.dateTime === value) return;
    time.dateTime = value;
    time.removeAttribute("title");
  };
  // Number of failed items in the newest message: the sidebar of a refreshed page may have an older one.
  let dead;
  const writeDead = () => {
    for (const count of document.querySelectorAll("[data-dead]")) {
      count.hidden = !dead;
      write(count, number(dead));
    }
  };
  // Values that can be written without a refresh; returns true if nothing else changed.
  const writers = {
    overview({ stats }, kind) {
      // The page already shows this count.
      return kind === "snapshot" && !refreshed && document.querySelector("#counted time")?.dateTime === stats.counted_at;
    },
    failures(failures) {
      dead = failures.dead;
      writeDead();
      const groupByKey = new Map(failures.groups.map((group) => [`${group.type} ${group.fingerprint}`, group]));
      for (const line of document.querySelectorAll("[data-group]")) {
        const group = groupByKey.get(line.dataset.group);
        if (!group) continue;
        write(line.querySelector("[data-count]"), number(group.count));
        at(line.querySelector("[data-last] time"), group.last_seen_at);
      }
      document.dispatchEvent(new Event("treeline:drawn"));
      // Rows, buttons and the set of groups are rendered by the server.
      return false;
    },
    notices(list, kind) {
      const bell = document.getElementById("notices-menu");
      document.dispatchEvent(new CustomEvent("treeline:notices", { detail: { list, kind } }));
      return bell?.dataset.newest === (list.data[0]?.id ?? "") && bell.dataset.unread === String(list.unread);
    },
    item(item) {
      const progress = document.getElementById("progress");
      if (progress) {
        const { done, total, message } = item.progress ?? {};
        const share = total > 0 ? Math.min(100, (100 * (done ?? 0)) / total) : 0;
        progress.hidden = !item.progress || !item.assignment;
        progress.querySelector("[data-share]")?.setAttribute("width", `${share}%`);
        const of = done === undefined || done === null ? "" : total ? `${number(done)} of ${number(total)}` : number(done);
        write(progress.querySelector("[data-done]"), [of, message].filter(Boolean).join(" · "));
      }
      at(document.querySelector("[data-heartbeat] time"), item.assignment?.last_heartbeat_at);
      document.dispatchEvent(new Event("treeline:drawn"));
      const { progress: _progress, assignment, version: _version, updated_at: _updated, ...rest } = item;
      const now = JSON.stringify([rest, assignment?.worker_id, assignment?.since]);
      const renderedVersion = Number(document.querySelector("[data-version]")?.dataset.version);
      const same = lastItem === now || (!lastItem && renderedVersion === item.version);
      lastItem = now;
      return same;
    },
  };

  const receive = (topic, kind, text) => {
    tries = 0;
    connected();
    show("live");
    const data = JSON.parse(text);
    const name = topic.split(":")[0];
    // The first message may be older than the page; items and notices tell by themselves.
    const isOlder = kind === "snapshot" && !refreshed && !["item", "notices"].includes(name) && data.version > 0 && data.version < readBefore;
    if (isOlder || writers[name]?.(data, kind)) return;
    refresh(PACES[topic], topic === "notices" ? "#notices-menu" : ALL);
  };
  const broken = () => {
    stop();
    lost();
    clearTimeout(timer);
    const wait = LATER[Math.min(tries, LATER.length - 1)] * (0.5 + Math.random());
    tries += 1;
    timer = setTimeout(start, wait);
  };
  const start = () => {
    if (document.hidden) return;
    for (const topic of watched()) {
      if (sources.has(topic) || refused.has(topic)) continue;
      lost();
      const source = new TreelineSource(topic);
      for (const kind of ["snapshot", "change"]) source.addEventListener(kind, (event) => receive(topic, kind, event.data));
      // Only this topic is over; the page itself says what may be seen.
      source.addEventListener("forbidden", (event) => {
        event.preventDefault();
        connected();
        refused.add(topic);
        sources.delete(topic);
        refresh();
      });
      // Deleted: the server renders what remains.
      source.addEventListener("removed", () => refresh());
      for (const kind of ["bye", "busy"]) source.addEventListener(kind, broken);
      source.onerror = () => {
        lost();
        if (source.readyState !== EventSource.CLOSED) return;
        broken();
        // The server refused: the page itself says whether the session has ended.
        refresh();
      };
      sources.set(topic, source);
    }
  };
  const stop = () => {
    for (const source of sources.values()) source.close();
    sources.clear();
  };
  document.addEventListener("treeline:refreshed", ({ detail }) => {
    if (detail.failed || !sources.size) return;
    if (dead !== undefined) writeDead();
    // A section may have come with a topic.
    start();
  });
  // The session has ended, or what the page shows is gone.
  document.addEventListener("treeline:gone", ({ detail }) => {
    stop();
    connected();
    clearTimeout(timer);
    show(detail);
  });
  // A tab that is hidden briefly keeps its topics.
  let leaving = 0;
  const leave = () => {
    stop();
    connected();
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    clearTimeout(timer);
    if (document.hidden) leaving = setTimeout(leave, 5_000);
    else start();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", start);
  // In its own task: this one also draws the page.
  setTimeout(start);
})();
