// One event stream for all tabs of this browser. Visible tabs announce their topics; the leader, which holds a Web
// Lock, opens one stream with the topics of all tabs and forwards its messages. Hidden tabs have no topics. Without
// locks (they need https or localhost), each visible tab opens its own stream. `TreelineSource` is the source of one
// topic: it behaves like an EventSource, and on a shared page it is one. Runs on every page.
(() => {
  const KINDS = ["snapshot", "change", "removed", "forbidden"];
  const ENDS = ["busy", "bye"];
  const [CONNECTING, OPEN, CLOSED] = [0, 1, 2];
  // Delay between a change of topics and reopening the stream.
  const GATHER = 60;
  // Other tabs repeat their topics before the leader drops them.
  const SAY_AGAIN = 10_000;
  const FORGET = 35_000;
  // A stream that is silent for this long may be dead without an error.
  const SILENT = 60_000;

  const me = Math.random().toString(36).slice(2);
  const sources = new Set();
  const locks = navigator.locks;
  const others = locks && window.BroadcastChannel ? new BroadcastChannel("treeline-live") : null;
  const own = () => [...new Set([...sources].map((source) => source.topic))].sort();

  // State of this tab as the leader.
  const leader = {
    leads: false,
    wanted: new Map(),
    stream: null,
    opened: "",
    timer: 0,
    heardAt: 0,

    /** What all tabs watch; tabs that said nothing for long are gone. */
    topics() {
      const now = performance.now();
      for (const [tab, { at }] of this.wanted) if (now - at > FORGET) this.wanted.delete(tab);
      const all = [own(), ...[...this.wanted.values()].map(({ topics }) => topics)];
      return [...new Set(all.flat())].sort().slice(0, 64);
    },
    /** Opens the stream anew, a moment later: several changes are one. */
    again() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.open(), GATHER);
    },
    open() {
      this.close();
      this.opened = this.topics().join(",");
      if (!this.leads || !this.opened) return;
      this.heardAt = performance.now();
      const stream = new EventSource(`/api/v1/events?topics=${this.opened}`);
      this.stream = stream;
      for (const kind of [...KINDS, ...ENDS]) {
        stream.addEventListener(kind, (event) => {
          if (this.stream !== stream) return;
          this.heardAt = performance.now();
          // The server is shutting down or has too many streams: reconnecting at once would help nobody.
          if (ENDS.includes(kind)) this.close();
          this.tell({ kind, data: event.data, state: stream.readyState });
        });
      }
      stream.onerror = () => {
        if (this.stream === stream) this.tell({ kind: "error", data: "", state: stream.readyState });
      };
    },
    close() {
      clearTimeout(this.timer);
      this.stream?.close();
      this.stream = null;
    },
    tell(said) {
      others?.postMessage({ said });
      hear(said);
    },
    /** Another tab says what it watches; `fresh`: it needs a snapshot. */
    hear({ tab, topics, fresh }) {
      if (topics.length) this.wanted.set(tab, { topics, at: performance.now() });
      else this.wanted.delete(tab);
      if (!this.leads) return;
      if (fresh || this.topics().join(",") !== this.opened) this.again();
    },
    look() {
      if (!this.leads) return;
      const silent = this.stream && performance.now() - this.heardAt > SILENT;
      if (silent || this.topics().join(",") !== this.opened) this.open();
    },
  };

  /** What the stream said, for the sources of this tab. */
  const hear = ({ kind, data, state }) => {
    const topic = KINDS.includes(kind) ? /^\{"topic":"([^"]+)"/.exec(data)?.[1] : null;
    for (const source of [...sources]) if (topic === null || source.topic === topic) source.hear(kind, data, state);
  };

  const say = (fresh) => {
    if (leader.leads || !others) leader.hear({ tab: me, topics: [], fresh });
    else others.postMessage({ tab: me, topics: own(), fresh });
  };

  // This tab takes part in the election while it has topics.
  let standing = null;
  const stand = () => {
    if (standing || !sources.size) return;
    if (!others) {
      leader.leads = true;
      return;
    }
    standing = new AbortController();
    const { signal } = standing;
    const lead = () =>
      new Promise((over) => {
        if (signal.aborted) return over();
        leader.leads = true;
        signal.addEventListener("abort", () => {
          leader.leads = false;
          leader.close();
          over();
        });
        others.postMessage({ who: true });
        leader.again();
      });
    locks.request("treeline-live", { signal }, lead).catch(() => {});
  };
  const step_down = () => {
    if (sources.size) return;
    if (others) others.postMessage({ tab: me, topics: [], fresh: false });
    standing?.abort();
    standing = null;
    if (!others) {
      leader.leads = false;
      leader.close();
    }
  };
  if (others) {
    others.onmessage = ({ data }) => {
      if (data.said) {
        if (!leader.leads) hear(data.said);
      } else if (data.who) {
        if (sources.size) others.postMessage({ tab: me, topics: own(), fresh: true });
      } else {
        leader.hear(data);
      }
    };
    setInterval(() => sources.size && !leader.leads && say(false), SAY_AGAIN);
  }
  setInterval(() => leader.look(), 2_000);

  class TreelineSource extends EventTarget {
    readyState = CONNECTING;
    onerror = null;
    constructor(address) {
      // A shared page has one tree and nothing to share between tabs.
      if (location.pathname.startsWith("/s/")) return new EventSource(address);
      super();
      this.topic = address.replace(/^\/api\/v1\/jobs\/(.+)\/events$/, "job:$1").replace("/api/v1/events", "roots");
      this.knows = false;
      sources.add(this);
      stand();
      say(true);
    }
    hear(kind, data, state) {
      // A change before the first snapshot was meant for other sources.
      if (kind === "change" && !this.knows) return;
      if (kind === "error") {
        this.readyState = state;
        return this.onerror?.(new Event("error"));
      }
      this.readyState = OPEN;
      this.knows = true;
      if (kind === "forbidden") {
        this.close();
        return this.onerror?.(new Event("error"));
      }
      this.dispatchEvent(new MessageEvent(kind, { data }));
    }
    close() {
      this.readyState = CLOSED;
      if (!sources.delete(this)) return;
      // Delayed, because another topic may replace this one.
      setTimeout(() => (sources.size ? say(false) : step_down()), GATHER);
    }
  }
  window.TreelineSource = TreelineSource;
  // A page that is left closes its sources.
  addEventListener("pagehide", () => {
    for (const source of sources) source.readyState = CLOSED;
    sources.clear();
    step_down();
  });
})();
