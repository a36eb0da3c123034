//! The only connection of a page to an event stream: of its job, or of all trees for a list.
//!
//! `EventSource` reconnects after a drop, but gives up forever on any status other than 200, keeps its connection
//! while the page is in the back/forward cache (six of those block the site over HTTP/1.1), and does not notice when
//! a phone silently loses its network. So it is closed while the page is hidden, reopened when it becomes visible,
//! checked by a timer, and replaced after growing, jittered pauses. Every (re)connect starts with a snapshot, so no
//! position in the stream is stored.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use domain::change::event;
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{EventSource, MessageEvent, VisibilityState};

use super::{
    liveness::Liveness,
    watched::{Answer, Watched, fetch, tell},
};

/// Outages shorter than this are not shown, in milliseconds.
const UNSEEN: f64 = 3_000.0;
/// Numbers are marked stale after this long without a connection, in milliseconds.
const STALE: f64 = 15_000.0;
/// A stream that is silent for this long is reopened: it may be dead without an error.
const SILENT: f64 = 60_000.0;
/// A hidden page keeps its stream for this long.
const HIDDEN: Duration = Duration::from_secs(5);
/// Interval of polling while the server is busy, and number of polls before the stream is tried again.
const POLL: Duration = Duration::from_secs(10);
const POLLS: u32 = 6;

/// An open `EventSource` with its listeners; closed when dropped.
struct Source {
    events: EventSource,
    listeners: Vec<Closure<dyn FnMut(MessageEvent)>>,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.events.set_onerror(None);
        self.events.close();
        // A listener may be the one that drops this source. It must outlive its own call.
        let listeners = std::mem::take(&mut self.listeners);
        set_timeout(move || drop(listeners), Duration::ZERO);
    }
}

#[derive(Default)]
struct Link {
    watched: Cell<Option<Watched>>,
    liveness: Cell<Option<RwSignal<Liveness>>>,
    source: RefCell<Option<Source>>,
    /// Incremented by every open and close; timers of an older generation do nothing.
    generation: Cell<u32>,
    tries: Cell<u32>,
    polls: Cell<u32>,
    heard_at: Cell<f64>,
    /// Start of the outage, if there is one.
    lost_at: Cell<Option<f64>>,
    paused: Cell<bool>,
    /// Hidden for long, or left for the back/forward cache.
    away: Cell<bool>,
    /// The tree is complete. The stream stays open, because a tree can be retried.
    finished: Cell<bool>,
    /// No more messages will arrive: the job was deleted or the session ended.
    over: Cell<bool>,
}

thread_local! {
    static LINK: Link = Link::default();
}

/// Opens the stream of a subscription and keeps it open while the page is visible.
pub(super) fn start(watched: Watched, liveness: RwSignal<Liveness>, finished: bool) {
    LINK.with(|link| {
        link.finished.set(finished);
        link.watched.set(Some(watched));
        link.liveness.set(Some(liveness));
        link.paused.set(remembered_pause());
        // A tab that is opened in the background opens no stream until it is visible.
        link.away.set(document().visibility_state() != VisibilityState::Visible);
        if !link.paused.get() {
            link.show(Liveness::Connecting);
            link.open();
        } else if !finished {
            liveness.set(Liveness::Paused);
        }
    });
    watch_visibility();
}

/// Toggles the pause button. The choice is stored for this tab.
pub(super) fn pause_or_resume() {
    LINK.with(|link| {
        if link.over.get() {
            return;
        }
        let pause = !link.paused.get();
        link.paused.set(pause);
        remember_pause(pause);
        if pause {
            link.close();
            link.show(Liveness::Paused);
        } else {
            link.show(Liveness::Connecting);
            link.open();
        }
    });
}

/// True when the tree was complete in the last event.
pub(super) fn set_finished(finished: bool) {
    LINK.with(|link| {
        if link.finished.replace(finished) != finished {
            link.show(Liveness::Live);
        }
    });
}

/// Fetches once, in addition to the stream, the rows that the snapshot of a list did not contain.
pub(super) fn look() {
    LINK.with(|link| {
        // A disconnected stream starts with a snapshot when it is back, so there is nothing to add to now.
        let connected = link.wanted() && link.lost_at.get().is_none();
        let Some(watched) = link.watched.get().filter(|_| connected) else { return };
        let generation = link.generation.get();
        leptos::task::spawn_local(async move {
            let answer = fetch(watched).await;
            LINK.with(|link| {
                if link.generation.get() != generation || !link.wanted() {
                    return;
                }
                match answer {
                    Answer::Heard(heard) => tell(heard),
                    Answer::SignedOut => link.end(Liveness::SignedOut),
                    _ => {}
                }
            });
        });
    });
}

/// Checks the connection. Called once a second.
pub(super) fn tick() {
    LINK.with(|link| {
        if !link.wanted() {
            return;
        }
        let now = now();
        match link.lost_at.get() {
            Some(lost) if now - lost > STALE => link.show(Liveness::Stale),
            Some(lost) if now - lost > UNSEEN => link.show(Liveness::Reconnecting),
            None if link.source.borrow().is_some() && now - link.heard_at.get() > SILENT => link.open(),
            _ => {}
        }
    });
}

impl Link {
    fn wanted(&self) -> bool {
        !(self.over.get() || self.paused.get() || self.away.get())
    }

    fn show(&self, liveness: Liveness) {
        // A complete tree misses nothing while the stream is disconnected.
        let ended = matches!(liveness, Liveness::Paused | Liveness::Removed | Liveness::SignedOut | Liveness::Closed);
        let liveness = if self.finished.get() && !ended { Liveness::Finished } else { liveness };
        if let Some(signal) = self.liveness.get().filter(|signal| signal.get_untracked() != liveness) {
            signal.set(liveness);
        }
    }

    fn close(&self) {
        self.generation.set(self.generation.get() + 1);
        self.source.take();
    }

    fn end(&self, liveness: Liveness) {
        self.over.set(true);
        self.close();
        self.show(liveness);
    }

    fn open(&self) {
        self.close();
        let Some(watched) = self.watched.get().filter(|_| self.wanted()) else { return };
        self.heard_at.set(now());
        let Ok(events) = source(&watched.stream()) else {
            self.lost();
            return self.later();
        };
        let mut listeners = Vec::new();
        for name in [event::SNAPSHOT, event::CHANGE, event::BUSY, event::BYE, event::REMOVED] {
            let listener = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| hear(name, &message));
            let _ = events.add_event_listener_with_callback(name, listener.as_ref().unchecked_ref());
            listeners.push(listener);
        }
        let failed = Closure::<dyn FnMut(MessageEvent)>::new(move |_| broken());
        events.set_onerror(Some(failed.as_ref().unchecked_ref()));
        listeners.push(failed);
        self.source.replace(Some(Source { events, listeners }));
    }

    /// Records that the connection is lost.
    fn lost(&self) {
        if self.lost_at.get().is_none() {
            self.lost_at.set(Some(now()));
        }
    }

    /// Records that a valid message arrived.
    fn found(&self, liveness: Liveness) {
        self.heard_at.set(now());
        self.lost_at.set(None);
        self.tries.set(0);
        self.show(liveness);
    }

    /// Reopens the stream after a random pause of up to 1 s, doubling to 30 s, so that a thousand pages do not
    /// reconnect in the same second.
    fn later(&self) {
        let tries = self.tries.get();
        self.tries.set(tries + 1);
        let longest = f64::from(1u32 << tries.min(5)).min(30.0);
        let pause = 0.2 + js_sys::Math::random() * longest;
        self.after(Duration::from_secs_f64(pause), Link::open);
    }

    /// Runs an action after a pause, unless the connection was opened or closed in the meantime.
    fn after(&self, pause: Duration, what: impl Fn(&Link) + 'static) {
        let generation = self.generation.get();
        set_timeout(
            move || {
                LINK.with(|link| {
                    if link.generation.get() == generation && link.wanted() {
                        what(link);
                    }
                });
            },
            pause,
        );
    }

    /// Sends one request instead of listening. `on_answer` receives whether it was answered.
    fn ask(&self, then: impl Fn(&Link, bool) + 'static) {
        let Some(watched) = self.watched.get() else { return };
        let generation = self.generation.get();
        leptos::task::spawn_local(async move {
            let answer = fetch(watched).await;
            LINK.with(|link| {
                if link.generation.get() != generation || !link.wanted() {
                    return;
                }
                let answered = matches!(answer, Answer::Heard(_));
                match answer {
                    Answer::Heard(heard) => {
                        link.heard_at.set(now());
                        // There is no stream yet, but the numbers are current.
                        link.lost_at.set(link.lost_at.get().map(|_| now()));
                        tell(heard);
                    }
                    Answer::SignedOut => return link.end(Liveness::SignedOut),
                    Answer::Removed => return link.end(Liveness::Removed),
                    Answer::Closed => return link.end(Liveness::Closed),
                    Answer::Nothing => link.lost(),
                }
                then(link, answered);
            });
        });
    }

    fn poll(&self) {
        self.ask(|link, heard| {
            let polls = link.polls.get() + 1;
            link.polls.set(polls);
            if heard {
                link.lost_at.set(None);
                link.show(Liveness::Polling);
            }
            if polls >= POLLS {
                link.polls.set(0);
                link.after(POLL, Link::open);
            } else {
                link.after(POLL, Link::poll);
            }
        });
    }
}

/// The stream that all tabs of a browser share (`scripts/live.js`). It behaves like an `EventSource` of this URL.
fn source(address: &str) -> Result<EventSource, JsValue> {
    let class: js_sys::Function = js_sys::Reflect::get(&window(), &"TreelineSource".into())?.unchecked_into();
    let source = js_sys::Reflect::construct(&class, &js_sys::Array::of1(&address.into()))?;
    Ok(source.unchecked_into())
}

/// Handles an event of the stream. An unreadable event is skipped: the next one carries absolute state.
fn hear(name: &'static str, message: &MessageEvent) {
    let data = message.data().as_string().unwrap_or_default();
    match name {
        event::SNAPSHOT | event::CHANGE => {
            let watched = LINK.with(|link| link.watched.get());
            if let Some(heard) = watched.and_then(|watched| watched.event(name, &data)) {
                LINK.with(|link| link.found(Liveness::Live));
                tell(heard);
            }
        }
        event::BUSY => LINK.with(|link| {
            link.close();
            link.lost_at.set(None);
            link.show(Liveness::Polling);
            link.poll();
        }),
        event::BYE => LINK.with(|link| {
            link.close();
            link.lost();
            link.later();
        }),
        _ => LINK.with(|link| link.end(Liveness::Removed)),
    }
}

/// Handles an error of the stream. While the browser retries by itself there is nothing to do; after it has given up,
/// a single request finds out why.
fn broken() {
    LINK.with(|link| {
        link.lost();
        let gave_up =
            link.source.borrow().as_ref().is_some_and(|source| source.events.ready_state() == EventSource::CLOSED);
        if gave_up {
            link.close();
            link.ask(|link, _| link.later());
        }
    });
}

/// Closes the stream when the page is left or hidden for long, and reopens it when the page is visible again.
fn watch_visibility() {
    let leave = || {
        LINK.with(|link| {
            link.away.set(true);
            link.close();
        });
    };
    let come_back = || {
        LINK.with(|link| {
            if link.away.replace(false) && link.wanted() {
                link.lost_at.set(None);
                link.open();
            }
        });
    };
    let waiting = Cell::new(None::<TimeoutHandle>);
    listen(document().as_ref(), "visibilitychange", move || {
        if let Some(timer) = waiting.take() {
            timer.clear();
        }
        if document().visibility_state() == VisibilityState::Visible {
            come_back();
        } else {
            waiting.set(set_timeout_with_handle(leave, HIDDEN).ok());
        }
    });
    listen(window().as_ref(), "pagehide", leave);
    listen(window().as_ref(), "pageshow", come_back);
}

fn listen(target: &web_sys::EventTarget, name: &str, handler: impl FnMut() + 'static) {
    let handler = Closure::<dyn FnMut()>::new(handler);
    let _ = target.add_event_listener_with_callback(name, handler.as_ref().unchecked_ref());
    // The listener lives as long as the page.
    handler.forget();
}

/// Key in the storage of this tab: pausing one page does not pause others.
const PAUSED: &str = "treeline-paused";

fn remembered_pause() -> bool {
    let storage = window().session_storage().ok().flatten();
    storage.and_then(|storage| storage.get_item(PAUSED).ok().flatten()).is_some()
}

fn remember_pause(pause: bool) {
    if let Ok(Some(storage)) = window().session_storage() {
        let _ = if pause { storage.set_item(PAUSED, "1") } else { storage.remove_item(PAUSED) };
    }
}

/// Monotonic time in milliseconds.
pub(super) fn now() -> f64 {
    window().performance().map_or_else(js_sys::Date::now, |clock| clock.now())
}
