//! `Connection`: bytes of a peer become events of streams, and answers become bytes.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{Builder, Connection as Served, Handshake};
use h2::{Reason, RecvStream};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::pipe::Pipe;
use crate::stream::{News, Stream};
use crate::wakes::{Flag, Ready};

/// What a connection may take.
pub struct Sizes {
    pub streams: u32,
    pub header_size: u32,
    pub stream_window: u32,
    pub connection_window: u32,
}

/// What has happened to a stream.
pub struct Event {
    pub stream: u32,
    /// Of a request that begins here.
    pub head: Option<Parts>,
    pub news: News,
}

enum State {
    Greeting(Box<Handshake<Pipe, Bytes>>),
    Open(Box<Served<Pipe, Bytes>>),
    Over,
}

pub struct Connection {
    state: State,
    pipe: Pipe,
    ready: Ready,
    woken: Arc<Flag>,
    streams: HashMap<u32, Stream>,
    events: Vec<Event>,
}

impl Connection {
    pub fn new(sizes: &Sizes) -> Self {
        let pipe = Pipe::default();
        let handshake = Builder::new()
            .max_concurrent_streams(sizes.streams)
            // Those that were given up within one piece of bytes: the loop may have been busy.
            .max_pending_accept_reset_streams(sizes.streams as usize)
            .max_header_list_size(sizes.header_size)
            .initial_window_size(sizes.stream_window)
            .initial_connection_window_size(sizes.connection_window)
            .handshake(pipe.clone());
        Connection {
            state: State::Greeting(Box::new(handshake)),
            pipe,
            ready: Ready::default(),
            woken: Arc::new(Flag::default()),
            streams: HashMap::new(),
            events: Vec::new(),
        }
    }

    /// Whether it has ended, for whatever reason.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Bytes of answers that the peer has no room for.
    pub fn unsent_size(&self) -> usize {
        self.streams.values().map(Stream::unsent_size).sum()
    }

    /// Take bytes of the peer; an empty slice says that no more come.
    pub fn receive(&mut self, data: &[u8]) -> Vec<Event> {
        if data.is_empty() {
            self.pipe.end();
        } else {
            self.pipe.feed(data);
        }
        self.drive()
    }

    /// Do all that can be done now; the events since the last call.
    pub fn drive(&mut self) -> Vec<Event> {
        let waker = Waker::from(self.woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            self.poll_connection(&mut context);
            while let Some(stream) = self.ready.next() {
                self.poll_stream(stream, None);
            }
            if !self.woken.take() || self.is_over() {
                break;
            }
        }
        if self.is_over() {
            for (stream, each) in self.streams.drain() {
                if !each.is_over() {
                    let news = News {
                        is_reset: true,
                        ..News::default()
                    };
                    self.events.push(Event {
                        stream,
                        head: None,
                        news,
                    });
                }
            }
        }
        std::mem::take(&mut self.events)
    }

    fn poll_connection(&mut self, context: &mut Context<'_>) {
        if let State::Greeting(handshake) = &mut self.state {
            match Pin::new(handshake.as_mut()).poll(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(served)) => self.state = State::Open(Box::new(served)),
                Poll::Ready(Err(_)) => self.state = State::Over,
            }
        }
        while let State::Open(served) = &mut self.state {
            match served.poll_accept(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok((request, response)))) => {
                    let (head, body): (Parts, RecvStream) = request.into_parts();
                    let number = body.stream_id().as_u32();
                    self.streams.insert(number, Stream::new(body, response));
                    self.poll_stream(number, Some(head));
                }
                Poll::Ready(_) => self.state = State::Over,
            }
        }
    }

    fn poll_stream(&mut self, number: u32, head: Option<Parts>) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let waker = self.ready.waker_of(number);
        let news = stream.poll(&mut Context::from_waker(&waker));
        if stream.is_over() {
            self.streams.remove(&number);
        }
        if head.is_some() || news != News::default() {
            self.events.push(Event {
                stream: number,
                head,
                news,
            });
        }
    }

    /// Begin to answer a request; false if it is over.
    pub fn respond(
        &mut self,
        number: u32,
        headers: HeaderMap,
        data: &[u8],
        trailers: Option<HeaderMap>,
    ) -> bool {
        self.change(number, |each| each.respond(headers, data, trailers))
    }

    /// Answer a request with a head alone; false if it is over.
    pub fn refuse(&mut self, number: u32, status: StatusCode, headers: HeaderMap) -> bool {
        self.change(number, |each| each.refuse(status, headers))
    }

    /// Send more of an answer; the bytes of it that the peer has no room for.
    pub fn send(&mut self, number: u32, data: &[u8]) -> usize {
        self.change(number, |each| each.send(data));
        self.streams.get_mut(&number).map_or(0, Stream::tell_unsent)
    }

    /// End an answer that was begun.
    pub fn finish(&mut self, number: u32, trailers: HeaderMap) {
        self.change(number, |each| {
            each.finish(trailers);
            true
        });
    }

    /// Give a stream up.
    pub fn reset(&mut self, number: u32, reason: Reason) {
        self.change(number, |each| {
            each.reset(reason);
            true
        });
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Stream) -> bool) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else {
            return false;
        };
        let is_done = change(stream);
        self.poll_stream(number, None);
        is_done
    }

    /// Take no more requests, and end when those that were begun have ended.
    pub fn shut(&mut self) {
        match &mut self.state {
            State::Open(served) => served.graceful_shutdown(),
            State::Greeting(_) => self.state = State::Over,
            State::Over => {}
        }
    }

    /// What is to be written to the peer.
    pub fn take_written(&mut self) -> Vec<u8> {
        self.pipe.take_written()
    }
}
