//! The page's one connection to an event stream: that of its job, or of all trees where it is a list.
//!
//! `EventSource` reconnects by itself after a drop, but gives up for ever on any answer other than 200,
//! keeps its connection while the page lies in the back/forward cache (six of those and the site hangs
//! over HTTP/1.1), and says nothing when a phone's radio has silently cut it. So it is closed whenever
//! nobody looks, opened again when somebody does, watched by a clock, and replaced with growing, jittered
//! pauses. Every (re)connect begins with a snapshot, so no place in the stream is remembered.

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

/// A break shorter than this is not shown, in milliseconds.
const UNSEEN: f64 = 3_000.0;
/// After this long without a connection the numbers are called stale.
const STALE: f64 = 15_000.0;
/// A stream that says nothing for this long is opened anew: it may be dead without knowing.
const SILENT: f64 = 60_000.0;
/// A hidden page keeps its stream this long.
const HIDDEN: Duration = Duration::from_secs(5);
/// Between two questions while the server is busy, and how many before the stream is tried again.
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
        // A listener may be what is dropping us. It must outlive its own call.
        let listeners = std::mem::take(&mut self.listeners);
        set_timeout(move || drop(listeners), Duration::ZERO);
    }
}

#[derive(Default)]
struct Link {
    watched: Cell<Option<Watched>>,
    liveness: Cell<Option<RwSignal<Liveness>>>,
    source: RefCell<Option<Source>>,
    /// Grows with every opening and closing; a timer of an older one does nothing.
    generation: Cell<u32>,
    tries: Cell<u32>,
    polls: Cell<u32>,
    heard_at: Cell<f64>,
    /// Since when there has been no connection.
    lost_at: Cell<Option<f64>>,
    paused: Cell<bool>,
    /// Hidden for long, or left for the back/forward cache.
    away: Cell<bool>,
    /// The tree is complete. The stream stays: a tree that is retried goes on.
    finished: Cell<bool>,
    /// Nothing more will come: removed or signed out.
    over: Cell<bool>,
}

thread_local! {
    static LINK: Link = Link::default();
}

/// Opens the stream of what is watched and keeps it open for as long as somebody looks.
pub(super) fn start(watched: Watched, liveness: RwSignal<Liveness>, finished: bool) {
    LINK.with(|link| {
        link.finished.set(finished);
        link.watched.set(Some(watched));
        link.liveness.set(Some(liveness));
        link.paused.set(remembered_pause());
        // A tab that is opened in the background holds no stream before somebody looks at it.
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

/// The reader's pause button. The choice is remembered for this browser.
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

/// Asks once, beside the stream, for what the snapshot of a list did not carry.
pub(super) fn look() {
    LINK.with(|link| {
        // While the stream is away there is nothing to add to: it begins with a snapshot when it comes back.
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

/// The clock of the connection: once a second.
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
        // Of a complete tree nothing is missed while the stream is away.
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

    /// Notes that the connection is gone.
    fn lost(&self) {
        if self.lost_at.get().is_none() {
            self.lost_at.set(Some(now()));
        }
    }

    /// Something true arrived.
    fn found(&self, liveness: Liveness) {
        self.heard_at.set(now());
        self.lost_at.set(None);
        self.tries.set(0);
        self.show(liveness);
    }

    /// Opens again after a pause that doubles from 1 s to 30 s, anywhere within it, so that a thousand
    /// pages do not come back in the same second.
    fn later(&self) {
        let tries = self.tries.get();
        self.tries.set(tries + 1);
        let longest = f64::from(1u32 << tries.min(5)).min(30.0);
        let pause = 0.2 + js_sys::Math::random() * longest;
        self.after(Duration::from_secs_f64(pause), Link::open);
    }

    /// Does something after a pause, unless the connection was opened or closed meanwhile.
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

    /// Asks once instead of listening; what comes after is told whether it was answered.
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
                        // Without a stream still, but the numbers are of this moment.
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

/// The stream that all tabs of a browser share, as `scripts/live.js` makes it: it behaves as an `EventSource` of this address alone.
fn source(address: &str) -> Result<EventSource, JsValue> {
    let class: js_sys::Function = js_sys::Reflect::get(&window(), &"TreelineSource".into())?.unchecked_into();
    let source = js_sys::Reflect::construct(&class, &js_sys::Array::of1(&address.into()))?;
    Ok(source.unchecked_into())
}

/// An event of the stream. One that cannot be read is left out: the next one carries absolute state.
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

/// The stream broke. While the browser retries by itself there is nothing to do but to wait; when it
/// has given up, the job itself is asked why.
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

/// Closes the stream when the page is left or hidden for long, and opens it when somebody looks again.
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
    // As long as the page.
    handler.forget();
}

/// Kept for this tab: who pauses one page does not stop the others, nor colleagues at the same machine.
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

/// Milliseconds on a clock that never goes back.
pub(super) fn now() -> f64 {
    window().performance().map_or_else(js_sys::Date::now, |clock| clock.now())
}
