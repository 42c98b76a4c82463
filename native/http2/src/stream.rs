//! `Stream`: one request and its response.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};

/// What a poll has found.
#[derive(Default, Debug, PartialEq)]
pub struct News {
    /// Bytes of the request.
    pub data: Vec<u8>,
    /// Whether the request has no more of them.
    pub is_ended: bool,
    /// Whether the peer has given the stream up.
    pub is_reset: bool,
    /// Whether bytes that the peer had no room for have gone to `h2`.
    pub is_drained: bool,
}

enum Way {
    Waiting(SendResponse<Bytes>),
    Open(SendStream<Bytes>),
    Done,
}

pub struct Stream {
    body: Option<RecvStream>,
    way: Way,
    unsent: VecDeque<Bytes>,
    unsent_size: usize,
    /// Whether somebody was told that the peer has no room.
    is_full: bool,
    trailers: Option<HeaderMap>,
}

impl Stream {
    pub fn new(body: RecvStream, response: SendResponse<Bytes>) -> Self {
        Stream {
            body: Some(body),
            way: Way::Waiting(response),
            unsent: VecDeque::new(),
            unsent_size: 0,
            is_full: false,
            trailers: None,
        }
    }

    /// Whether the answer has ended; what the request still has is of no use then.
    pub fn is_over(&self) -> bool {
        matches!(self.way, Way::Done)
    }

    /// Take what has come, and send what may be sent.
    pub fn poll(&mut self, context: &mut Context<'_>) -> News {
        let mut news = News::default();
        self.poll_body(context, &mut news);
        if !news.is_reset && !self.send_unsent(context) {
            news.is_reset = true;
        }
        if self.is_full && self.unsent.is_empty() && !self.is_over() {
            self.is_full = false;
            news.is_drained = true;
        }
        let reset = match &mut self.way {
            Way::Waiting(response) => response.poll_reset(context),
            Way::Open(send) => send.poll_reset(context),
            Way::Done => Poll::Pending,
        };
        news.is_reset |= reset.is_ready();
        if news.is_reset {
            self.end();
        }
        news
    }

    fn poll_body(&mut self, context: &mut Context<'_>, news: &mut News) {
        let Some(body) = &mut self.body else { return };
        loop {
            match body.poll_data(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(data))) => {
                    news.data.extend_from_slice(&data);
                    // Whoever gets them sees to it that they are not too many.
                    let released = body.flow_control().release_capacity(data.len());
                    news.is_reset |= released.is_err();
                }
                Poll::Ready(Some(Err(_))) => {
                    news.is_reset = true;
                    return;
                }
                Poll::Ready(None) => break,
            }
        }
        news.is_ended = true;
        self.body = None;
    }

    /// Begin to answer; with trailers this is the whole answer.
    pub fn respond(
        &mut self,
        headers: HeaderMap,
        data: &[u8],
        trailers: Option<HeaderMap>,
    ) -> bool {
        let Way::Waiting(response) = &mut self.way else {
            return false;
        };
        let mut head = Response::new(());
        *head.headers_mut() = headers;
        let Ok(send) = response.send_response(head, false) else {
            return false;
        };
        self.way = Way::Open(send);
        self.trailers = trailers;
        self.send(data)
    }

    /// Answer with a head alone.
    pub fn refuse(&mut self, status: StatusCode, headers: HeaderMap) -> bool {
        let Way::Waiting(response) = &mut self.way else {
            return false;
        };
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = headers;
        let is_sent = response.send_response(head, true).is_ok();
        self.end();
        is_sent
    }

    /// Send more of an answer, as soon as the peer takes it.
    pub fn send(&mut self, data: &[u8]) -> bool {
        let Way::Open(send) = &mut self.way else {
            return false;
        };
        if !data.is_empty() {
            self.unsent_size += data.len();
            self.unsent.push_back(Bytes::copy_from_slice(data));
            send.reserve_capacity(self.unsent_size);
        }
        true
    }

    /// End the answer.
    pub fn finish(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }

    /// Give the stream up.
    pub fn reset(&mut self, reason: Reason) {
        match &mut self.way {
            Way::Waiting(response) => response.send_reset(reason),
            Way::Open(send) => send.send_reset(reason),
            Way::Done => {}
        }
        self.end();
    }

    /// Bytes that the peer has no room for; a poll says when it has.
    pub fn tell_unsent(&mut self) -> usize {
        self.is_full = self.unsent_size > 0;
        self.unsent_size
    }

    /// Bytes that the peer has no room for.
    pub fn unsent_size(&self) -> usize {
        self.unsent_size
    }

    /// Send what the peer takes now; false if it takes nothing any more.
    fn send_unsent(&mut self, context: &mut Context<'_>) -> bool {
        let Way::Open(send) = &mut self.way else {
            return true;
        };
        while let Some(first) = self.unsent.front_mut() {
            let room = match send.capacity() {
                0 => match send.poll_capacity(context) {
                    Poll::Pending => return true,
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(_) => return false,
                },
                room => room,
            };
            let count = room.min(first.len());
            if count == 0 {
                continue;
            }
            let part = first.split_to(count);
            if first.is_empty() {
                self.unsent.pop_front();
            }
            self.unsent_size -= count;
            if send.send_data(part, false).is_err() {
                return false;
            }
        }
        if let Some(trailers) = self.trailers.take() {
            let is_sent = send.send_trailers(trailers).is_ok();
            self.end();
            return is_sent;
        }
        true
    }

    fn end(&mut self) {
        self.way = Way::Done;
        self.body = None;
        self.unsent.clear();
        self.unsent_size = 0;
    }
}
