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

use domain::tree::change::event;
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{EventSource, MessageEvent, VisibilityState};

use super::{
    liveness::Liveness,
    subscription::{Answer, Subscription, dispatch, fetch},
};

/// Outages shorter than this are not shown, in milliseconds.
const RECONNECTING_AFTER: f64 = 3_000.0;
/// Numbers are marked stale after this long without a connection, in milliseconds.
const STALE_AFTER: f64 = 15_000.0;
/// A stream that is silent for this long is reopened: it may be dead without an error.
const SILENCE_LIMIT: f64 = 60_000.0;
/// A hidden page keeps its stream for this long.
const HIDDEN_LIMIT: Duration = Duration::from_secs(5);
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
struct Connection {
    subscription: Cell<Option<Subscription>>,
    liveness: Cell<Option<RwSignal<Liveness>>>,
    source: RefCell<Option<Source>>,
    /// Incremented by every open and close; timers of an older generation do nothing.
    generation: Cell<u32>,
    tries: Cell<u32>,
    polls: Cell<u32>,
    last_message_at: Cell<f64>,
    /// Start of the outage, if there is one.
    lost_at: Cell<Option<f64>>,
    paused: Cell<bool>,
    /// Hidden for long, or left for the back/forward cache.
    away: Cell<bool>,
    /// The tree is complete. The stream stays open, because a tree can be retried.
    finished: Cell<bool>,
    /// No more messages will arrive: the job was deleted or the session ended.
    ended_for_good: Cell<bool>,
}

thread_local! {
    static CONNECTION: Connection = Connection::default();
}

/// Opens the stream of a subscription and keeps it open while the page is visible.
pub(super) fn start(subscription: Subscription, liveness: RwSignal<Liveness>, finished: bool) {
    CONNECTION.with(|connection| {
        connection.finished.set(finished);
        connection.subscription.set(Some(subscription));
        connection.liveness.set(Some(liveness));
        connection.paused.set(remembered_pause());
        // A tab that is opened in the background opens no stream until it is visible.
        connection.away.set(document().visibility_state() != VisibilityState::Visible);
        if !connection.paused.get() {
            connection.show(Liveness::Connecting);
            connection.open();
        } else if !finished {
            liveness.set(Liveness::Paused);
        }
    });
    watch_visibility();
}

/// Toggles the pause button. The choice is stored for this tab.
pub(super) fn pause_or_resume() {
    CONNECTION.with(|connection| {
        if connection.ended_for_good.get() {
            return;
        }
        let pause = !connection.paused.get();
        connection.paused.set(pause);
        remember_pause(pause);
        if pause {
            connection.close();
            connection.show(Liveness::Paused);
        } else {
            connection.show(Liveness::Connecting);
            connection.open();
        }
    });
}

/// Records whether the tree was complete in the last event.
pub(super) fn set_finished(finished: bool) {
    CONNECTION.with(|connection| {
        if connection.finished.replace(finished) != finished {
            connection.show(Liveness::Live);
        }
    });
}

/// Fetches once, in addition to the stream, the rows that the snapshot of a list did not contain.
pub(super) fn fetch_once() {
    CONNECTION.with(|connection| {
        // A disconnected stream starts with a snapshot when it is back, so there is nothing to add to now.
        let connected = connection.should_be_open() && connection.lost_at.get().is_none();
        let Some(subscription) = connection.subscription.get().filter(|_| connected) else { return };
        let generation = connection.generation.get();
        leptos::task::spawn_local(async move {
            let answer = fetch(subscription).await;
            CONNECTION.with(|connection| {
                if connection.generation.get() != generation || !connection.should_be_open() {
                    return;
                }
                match answer {
                    Answer::StreamMessage(received) => dispatch(received),
                    Answer::SignedOut => connection.end(Liveness::SignedOut),
                    _ => {}
                }
            });
        });
    });
}

/// Checks the connection. Called once a second.
pub(super) fn tick() {
    CONNECTION.with(|connection| {
        if !connection.should_be_open() {
            return;
        }
        let now = now();
        match connection.lost_at.get() {
            Some(lost_at) if now - lost_at > STALE_AFTER => connection.show(Liveness::Stale),
            Some(lost_at) if now - lost_at > RECONNECTING_AFTER => connection.show(Liveness::Reconnecting),
            None if connection.source.borrow().is_some() && now - connection.last_message_at.get() > SILENCE_LIMIT => {
                connection.open();
            }
            _ => {}
        }
    });
}

impl Connection {
    fn should_be_open(&self) -> bool {
        !(self.ended_for_good.get() || self.paused.get() || self.away.get())
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
        self.ended_for_good.set(true);
        self.close();
        self.show(liveness);
    }

    fn open(&self) {
        self.close();
        let Some(subscription) = self.subscription.get().filter(|_| self.should_be_open()) else { return };
        self.last_message_at.set(now());
        let Ok(events) = source(&subscription.stream()) else {
            self.mark_lost();
            return self.reopen_later();
        };
        let mut listeners = Vec::new();
        for name in [event::SNAPSHOT, event::CHANGE, event::BUSY, event::BYE, event::REMOVED] {
            let listener =
                Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| receive(name, &message));
            let _ = events.add_event_listener_with_callback(name, listener.as_ref().unchecked_ref());
            listeners.push(listener);
        }
        let failed = Closure::<dyn FnMut(MessageEvent)>::new(move |_| handle_error());
        events.set_onerror(Some(failed.as_ref().unchecked_ref()));
        listeners.push(failed);
        self.source.replace(Some(Source { events, listeners }));
    }

    /// Records that the connection is lost.
    fn mark_lost(&self) {
        if self.lost_at.get().is_none() {
            self.lost_at.set(Some(now()));
        }
    }

    /// Records that a valid message arrived.
    fn mark_connected(&self, liveness: Liveness) {
        self.last_message_at.set(now());
        self.lost_at.set(None);
        self.tries.set(0);
        self.show(liveness);
    }

    /// Reopens the stream after a random pause of up to 1 s, doubling to 30 s, so that a thousand pages do not
    /// reconnect in the same second.
    fn reopen_later(&self) {
        let tries = self.tries.get();
        self.tries.set(tries + 1);
        let longest = f64::from(1u32 << tries.min(5)).min(30.0);
        let pause = 0.2 + js_sys::Math::random() * longest;
        self.run_after(Duration::from_secs_f64(pause), Connection::open);
    }

    /// Runs an action after a pause, unless the connection was opened or closed in the meantime.
    fn run_after(&self, pause: Duration, action: impl Fn(&Connection) + 'static) {
        let generation = self.generation.get();
        set_timeout(
            move || {
                CONNECTION.with(|connection| {
                    if connection.generation.get() == generation && connection.should_be_open() {
                        action(connection);
                    }
                });
            },
            pause,
        );
    }

    /// Sends one request instead of listening. `on_answer` receives whether it was answered.
    fn request_once(&self, on_answer: impl Fn(&Connection, bool) + 'static) {
        let Some(subscription) = self.subscription.get() else { return };
        let generation = self.generation.get();
        leptos::task::spawn_local(async move {
            let answer = fetch(subscription).await;
            CONNECTION.with(|connection| {
                if connection.generation.get() != generation || !connection.should_be_open() {
                    return;
                }
                let answered = matches!(answer, Answer::StreamMessage(_));
                match answer {
                    Answer::StreamMessage(received) => {
                        connection.last_message_at.set(now());
                        // There is no stream yet, but the numbers are current.
                        connection.lost_at.set(connection.lost_at.get().map(|_| now()));
                        dispatch(received);
                    }
                    Answer::SignedOut => return connection.end(Liveness::SignedOut),
                    Answer::Removed => return connection.end(Liveness::Removed),
                    Answer::Closed => return connection.end(Liveness::Closed),
                    Answer::Nothing => connection.mark_lost(),
                }
                on_answer(connection, answered);
            });
        });
    }

    fn poll(&self) {
        self.request_once(|connection, received| {
            let polls = connection.polls.get() + 1;
            connection.polls.set(polls);
            if received {
                connection.lost_at.set(None);
                connection.show(Liveness::Polling);
            }
            if polls >= POLLS {
                connection.polls.set(0);
                connection.run_after(POLL, Connection::open);
            } else {
                connection.run_after(POLL, Connection::poll);
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
fn receive(name: &'static str, message: &MessageEvent) {
    let data = message.data().as_string().unwrap_or_default();
    match name {
        event::SNAPSHOT | event::CHANGE => {
            let subscription = CONNECTION.with(|connection| connection.subscription.get());
            if let Some(received) = subscription.and_then(|subscription| subscription.event(name, &data)) {
                CONNECTION.with(|connection| connection.mark_connected(Liveness::Live));
                dispatch(received);
            }
        }
        event::BUSY => CONNECTION.with(|connection| {
            connection.close();
            connection.lost_at.set(None);
            connection.show(Liveness::Polling);
            connection.poll();
        }),
        event::BYE => CONNECTION.with(|connection| {
            connection.close();
            connection.mark_lost();
            connection.reopen_later();
        }),
        _ => CONNECTION.with(|connection| connection.end(Liveness::Removed)),
    }
}

/// Handles an error of the stream. While the browser retries by itself there is nothing to do; after it has given up,
/// a single request finds out why.
fn handle_error() {
    CONNECTION.with(|connection| {
        connection.mark_lost();
        let gave_up = connection
            .source
            .borrow()
            .as_ref()
            .is_some_and(|source| source.events.ready_state() == EventSource::CLOSED);
        if gave_up {
            connection.close();
            connection.request_once(|connection, _| connection.reopen_later());
        }
    });
}

/// Closes the stream when the page is left or hidden for long, and reopens it when the page is visible again.
fn watch_visibility() {
    let leave = || {
        CONNECTION.with(|connection| {
            connection.away.set(true);
            connection.close();
        });
    };
    let come_back = || {
        CONNECTION.with(|connection| {
            if connection.away.replace(false) && connection.should_be_open() {
                connection.lost_at.set(None);
                connection.open();
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
            waiting.set(set_timeout_with_handle(leave, HIDDEN_LIMIT).ok());
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
