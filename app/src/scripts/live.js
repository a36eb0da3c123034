// One event stream for all tabs of this browser. Visible tabs announce their topics; the leader, which holds a Web
// Lock, opens one stream with the topics of all tabs and forwards its messages. Hidden tabs have no topics. Without
// locks (they need https or localhost), each visible tab opens its own stream. `TreelineSource` is the source of one
// topic: it behaves like an EventSource, and on a shared page it is one. Runs on every page.
(() => {
  const KINDS = ["snapshot", "change", "removed", "forbidden"];
  const ENDS = ["busy", "bye"];
  const [CONNECTING, OPEN, CLOSED] = [0, 1, 2];
  // Delay between a change of topics and reopening the stream.
  const REOPEN_DELAY = 60;
  // Other tabs repeat their topics before the leader drops them.
  const ANNOUNCE_EVERY = 10_000;
  const TAB_EXPIRES_AFTER = 35_000;
  // A stream that is silent for this long may be dead without an error.
  const SILENCE_LIMIT = 60_000;

  const tabId = Math.random().toString(36).slice(2);
  const sources = new Set();
  const locks = navigator.locks;
  const others = locks && window.BroadcastChannel ? new BroadcastChannel("treeline-live") : null;
  const ownTopics = () => [...new Set([...sources].map((source) => source.topic))].sort();

  // State of this tab as the leader.
  const leader = {
    leads: false,
    wanted: new Map(),
    stream: null,
    openTopics: "",
    timer: 0,
    lastMessageAt: 0,

    /** Topics of all tabs. Tabs that have been silent for too long are dropped. */
    topics() {
      const now = performance.now();
      for (const [tab, { at }] of this.wanted) if (now - at > TAB_EXPIRES_AFTER) this.wanted.delete(tab);
      const all = [ownTopics(), ...[...this.wanted.values()].map(({ topics }) => topics)];
      return [...new Set(all.flat())].sort().slice(0, 64);
    },
    /** Opens the stream again after a short delay, so that several changes cause one request. */
    reopenSoon() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.open(), REOPEN_DELAY);
    },
    open() {
      this.close();
      this.openTopics = this.topics().join(",");
      if (!this.leads || !this.openTopics) return;
      this.lastMessageAt = performance.now();
      const stream = new EventSource(`/api/v1/events?topics=${this.openTopics}`);
      this.stream = stream;
      for (const kind of [...KINDS, ...ENDS]) {
        stream.addEventListener(kind, (event) => {
          if (this.stream !== stream) return;
          this.lastMessageAt = performance.now();
          // The server is shutting down or has too many streams: reconnecting at once would help nobody.
          if (ENDS.includes(kind)) this.close();
          this.publish({ kind, data: event.data, state: stream.readyState });
        });
      }
      stream.onerror = () => {
        if (this.stream === stream) this.publish({ kind: "error", data: "", state: stream.readyState });
      };
    },
    close() {
      clearTimeout(this.timer);
      this.stream?.close();
      this.stream = null;
    },
    publish(message) {
      others?.postMessage({ message });
      receive(message);
    },
    /** Another tab says what it watches; `fresh`: it needs a snapshot. */
    receive({ tab, topics, fresh }) {
      if (topics.length) this.wanted.set(tab, { topics, at: performance.now() });
      else this.wanted.delete(tab);
      if (!this.leads) return;
      if (fresh || this.topics().join(",") !== this.openTopics) this.reopenSoon();
    },
    checkStream() {
      if (!this.leads) return;
      const silent = this.stream && performance.now() - this.lastMessageAt > SILENCE_LIMIT;
      if (silent || this.topics().join(",") !== this.openTopics) this.open();
    },
  };

  /** Hands an event of the stream to the sources of this tab. */
  const receive = ({ kind, data, state }) => {
    const topic = KINDS.includes(kind) ? /^\{"topic":"([^"]+)"/.exec(data)?.[1] : null;
    for (const source of [...sources]) if (topic === null || source.topic === topic) source.receive(kind, data, state);
  };

  const announce = (fresh) => {
    if (leader.leads || !others) leader.receive({ tab: tabId, topics: [], fresh });
    else others.postMessage({ tab: tabId, topics: ownTopics(), fresh });
  };

  // This tab takes part in the election while it has topics.
  let election = null;
  const joinElection = () => {
    if (election || !sources.size) return;
    if (!others) {
      leader.leads = true;
      return;
    }
    election = new AbortController();
    const { signal } = election;
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
        leader.reopenSoon();
      });
    locks.request("treeline-live", { signal }, lead).catch(() => {});
  };
  const leaveElection = () => {
    if (sources.size) return;
    if (others) others.postMessage({ tab: tabId, topics: [], fresh: false });
    election?.abort();
    election = null;
    if (!others) {
      leader.leads = false;
      leader.close();
    }
  };
  if (others) {
    others.onmessage = ({ data }) => {
      if (data.message) {
        if (!leader.leads) receive(data.message);
      } else if (data.who) {
        if (sources.size) others.postMessage({ tab: tabId, topics: ownTopics(), fresh: true });
      } else {
        leader.receive(data);
      }
    };
    setInterval(() => sources.size && !leader.leads && announce(false), ANNOUNCE_EVERY);
  }
  setInterval(() => leader.checkStream(), 2_000);

  class TreelineSource extends EventTarget {
    readyState = CONNECTING;
    onerror = null;
    constructor(address) {
      // A shared page has one tree and nothing to share between tabs.
      if (location.pathname.startsWith("/s/")) return new EventSource(address);
      super();
      this.topic = address.replace(/^\/api\/v1\/jobs\/(.+)\/events$/, "job:$1").replace("/api/v1/events", "roots");
      this.hasSnapshot = false;
      sources.add(this);
      joinElection();
      announce(true);
    }
    receive(kind, data, state) {
      // A change before the first snapshot was meant for other sources.
      if (kind === "change" && !this.hasSnapshot) return;
      if (kind === "error") {
        this.readyState = state;
        return this.onerror?.(new Event("error"));
      }
      this.readyState = OPEN;
      if (kind !== "busy" && kind !== "bye") this.hasSnapshot = true;
      if (kind === "forbidden") {
        this.close();
        // A listener may handle it; for others it is an error.
        if (this.dispatchEvent(new MessageEvent(kind, { cancelable: true }))) this.onerror?.(new Event("error"));
        return;
      }
      this.dispatchEvent(new MessageEvent(kind, { data }));
    }
    close() {
      this.readyState = CLOSED;
      if (!sources.delete(this)) return;
      // Delayed, because another topic may replace this one.
      setTimeout(() => (sources.size ? announce(false) : leaveElection()), REOPEN_DELAY);
    }
  }
  window.TreelineSource = TreelineSource;
  // A page that is left closes its sources.
  addEventListener("pagehide", () => {
    for (const source of sources) source.readyState = CLOSED;
    sources.clear();
    leaveElection();
  });
})();
