//! One connection, which answers requests one after the other.

use super::answers::closing;
use super::http::{self, MAX_REQUEST, Parsed};
use super::server::{Reply, Server};
use crate::pages::HEAD_TIMEOUT;
use crate::sim::rules::{EVENTS, JSON, Order, Page, json_string};
use std::{
    cell::RefCell,
    fmt::Write,
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Instant, sleep_until, timeout_at},
};

/// Size of a read, in bytes.
const READ: usize = 64 << 10;
/// Maximum number of bytes that a client may send ahead while it is being answered.
const AHEAD: usize = 1 << 20;
/// Delay that stands for never.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);

thread_local! {
    /// Read buffer shared by all connections of a thread, so that an idle connection needs none.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Serves a connection until the client closes it or asks to. An error ends the connection.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(io: S, server: &Server) {
    let rest = Vec::new();
    let mut connection = Connection { io, server, rest, least: 1, read: Instant::now(), half_since: None };
    if let Err(error) = connection.run().await {
        tracing::debug!("a connection of the null server ended: {error}");
    }
}

struct Connection<'a, S> {
    io: S,
    server: &'a Server,
    /// Bytes that have been read but not used; normally none.
    rest: Vec<u8>,
    /// Minimum number of bytes of a complete request.
    least: usize,
    /// Time of the last read.
    read: Instant,
    /// Time since when there has been a part of a head without its end.
    half_since: Option<Instant>,
}

/// The next action after a read.
enum Next {
    /// End: the client has disconnected.
    Gone,
    /// Read more.
    Read,
    /// Tell the client to send the body, then read more.
    Continue,
    /// Answer.
    Reply { reply: Reply, close: bool, bodiless: bool },
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(&mut self) -> io::Result<()> {
        let mut continued = false;
        loop {
            // Bytes that came with or during the previous request, if any.
            let mut next = if self.rest.is_empty() { Next::Read } else { self.look(None) };
            loop {
                match next {
                    Next::Gone => return Ok(()),
                    Next::Read => {}
                    Next::Continue if continued => {}
                    Next::Continue => {
                        continued = true;
                        self.io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                    }
                    Next::Reply { reply, close, bodiless } => {
                        continued = false;
                        match reply {
                            Reply::Page(page) => self.page(&page, close, bodiless).await?,
                            Reply::Answer(order) if order.stream => self.stream(&order, close).await?,
                            Reply::Answer(order) => self.document(&order, close).await?,
                        }
                        if close {
                            return self.io.shutdown().await;
                        }
                        break;
                    }
                }
                next = self.next().await?;
            }
        }
    }

    /// Reads more and returns the next action. Gives up on a head that is still half sent after ten seconds.
    async fn next(&mut self) -> io::Result<Next> {
        let half = !self.rest.is_empty() && memchr::memmem::find(&self.rest, b"\r\n\r\n").is_none();
        self.half_since = if half { self.half_since.or(Some(self.read)) } else { None };
        let Some(since) = self.half_since else { return poll_fn(|cx| self.poll_next(cx)).await };
        let read = timeout_at(since + HEAD_TIMEOUT, poll_fn(|cx| self.poll_next(cx))).await;
        read.unwrap_or(Ok(Next::Gone))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let bytes = ready!(self.poll_read(cx, scratch))?;
            Poll::Ready(Ok(if bytes.is_empty() { Next::Gone } else { self.look(Some(bytes)) }))
        })
    }

    fn poll_read<'b>(&mut self, cx: &mut Context<'_>, scratch: &'b mut [u8]) -> Poll<io::Result<&'b [u8]>> {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        self.read = Instant::now();
        let n = buffer.filled().len();
        Poll::Ready(Ok(&scratch[..n]))
    }

    /// Parses a request from the rest and the `fresh` bytes, of which only the unused ones are copied.
    fn look(&mut self, fresh: Option<&[u8]>) -> Next {
        let fresh = fresh.unwrap_or_default();
        if self.rest.is_empty() {
            let (next, used) = self.find(fresh);
            self.rest.extend_from_slice(&fresh[used..]);
            return next;
        }
        self.rest.extend_from_slice(fresh);
        if self.rest.len() < self.least {
            return Next::Read;
        }
        let rest = std::mem::take(&mut self.rest);
        let (next, used) = self.find(&rest);
        if used < rest.len() {
            self.rest = rest;
            self.rest.drain(..used);
        }
        next
    }

    /// Parses a request. Returns the next action and the number of bytes used.
    fn find(&mut self, bytes: &[u8]) -> (Next, usize) {
        match http::parse(bytes) {
            Ok(Parsed::Incomplete { .. }) if bytes.len() > MAX_REQUEST => (Next::Gone, 0),
            Ok(Parsed::Incomplete { least, expects }) => {
                self.least = least;
                (if expects { Next::Continue } else { Next::Read }, 0)
            }
            Ok(Parsed::Complete(request, used)) => {
                self.least = 1;
                let (close, bodiless) = (request.close, request.method == "HEAD");
                (Next::Reply { reply: self.server.reply(&request), close, bodiless }, used)
            }
            Err(http::ParseError { status, why }) => {
                let body = format!(r#"{{"error":{{"message":{}}}}}"#, json_string(why));
                let reply = Reply::Page(Page::new(status, JSON, body));
                (Next::Reply { reply, close: true, bodiless: false }, bytes.len())
            }
        }
    }

    async fn page(&mut self, page: &Page, close: bool, bodiless: bool) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {}\r\n{}{}content-length: {}\r\n\r\n",
            page.status,
            page.content_type,
            page.allow.map_or_else(String::new, |methods| format!("allow: {methods}\r\n")),
            connection(close),
            page.body.len()
        );
        let body = if bodiless { "" } else { &*page.body };
        self.send(&mut [IoSlice::new(head.as_bytes()), IoSlice::new(body.as_bytes())]).await
    }

    /// Sends the answer as a document once its last token is due.
    async fn document(&mut self, order: &Order, close: bool) -> io::Result<()> {
        let (running, read) = (self.server.start(), self.read);
        let body = self.server.document(order);
        self.wait(self.due(read, order.output - 1)).await?;
        let took = read.elapsed();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\n{}content-length: {}\r\n{}\r\n\r\n",
            connection(close),
            body.len(),
            Timing(took)
        );
        self.send(&mut [IoSlice::new(head.as_bytes()), IoSlice::new(body.as_bytes())]).await?;
        self.server.first(took, order.input, order.output * order.choices);
        running.finish(took);
        Ok(())
    }

    /// Sends events as they become due, one chunk per write; the first includes the response head.
    async fn stream(&mut self, order: &Order, close: bool) -> io::Result<()> {
        let (running, read) = (self.server.start(), self.read);
        let events = self.server.events(order);
        let all = order.output * order.choices;
        let closing = closing(order.api, self.server.head(order.api), order.input, all, order.options);
        let mut lead = String::with_capacity(256);
        let (mut sent, mut last) = (0, read);
        while sent < order.output {
            self.wait(self.due(read, sent)).await?;
            let to = self.ready(read.elapsed(), sent, order.output);
            let tokens = events.tokens(sent as usize, to as usize);
            let (tail, end) = if to == order.output { (&*closing, "\r\n0\r\n\r\n") } else { ("", "\r\n") };
            let size = tokens.len() + tail.len();
            let now = Instant::now();
            lead.clear();
            if sent == 0 {
                let _ = write!(lead, "HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\n{}", connection(close));
                let _ = write!(lead, "transfer-encoding: chunked\r\n{}\r\n\r\n", Timing(now - read));
            }
            let _ = write!(lead, "{size:x}\r\n");
            let parts = [lead.as_bytes(), tokens, tail.as_bytes(), end.as_bytes()];
            self.send(&mut parts.map(IoSlice::new)).await?;
            if sent == 0 {
                self.server.first(now - read, order.input, to * order.choices);
            } else {
                self.server.further(now - last, (to - sent) * order.choices);
            }
            (sent, last) = (to, now);
        }
        running.finish(last - read);
        Ok(())
    }

    /// Returns when a token, counted from zero, is due.
    fn due(&self, read: Instant, token: u32) -> Instant {
        let settings = &self.server.settings;
        let after = settings.gap.0.saturating_mul(token).saturating_add(settings.first.0);
        read + after.min(NEVER)
    }

    /// Returns the total number of tokens due `elapsed` after the request: at least one more than were sent, since that
    /// one was waited for.
    fn ready(&self, elapsed: Duration, sent: u32, output: u32) -> u32 {
        let settings = &self.server.settings;
        if settings.gap.0.is_zero() {
            return output;
        }
        let gaps = elapsed.saturating_sub(settings.first.0).as_nanos() / settings.gap.0.as_nanos();
        u32::try_from(gaps).map_or(output, |gaps| gaps.saturating_add(1)).clamp(sent + 1, output)
    }

    /// Waits until `due`. Fails if the client disconnects in the meantime.
    async fn wait(&mut self, due: Instant) -> io::Result<()> {
        if due <= self.read || due <= Instant::now() {
            return Ok(());
        }
        let mut sleep = pin!(sleep_until(due));
        loop {
            let room = self.rest.len() < AHEAD;
            tokio::select! {
                biased;
                () = &mut sleep => return Ok(()),
                taken = poll_fn(|cx| self.poll_ahead(cx)), if room => taken?,
            }
        }
    }

    /// Reads bytes that arrive while a request is being answered.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let bytes = ready!(self.poll_read(cx, scratch))?;
            if bytes.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            self.rest.extend_from_slice(bytes);
            Poll::Ready(Ok(()))
        })
    }

    /// Writes all parts, in one call if the socket accepts them.
    async fn send(&mut self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let n = self.io.write_vectored(parts).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut parts, n);
        }
        Ok(())
    }
}

/// Returns the header that announces the end of the connection, if it is to close.
const fn connection(close: bool) -> &'static str {
    if close { "connection: close\r\n" } else { "" }
}

/// The time to first token as a header value: in milliseconds, to the microsecond.
struct Timing(Duration);

impl std::fmt::Display for Timing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0.as_micros();
        write!(f, "server-timing: ttft;dur={}.{:03}", micros / 1000, micros % 1000)
    }
}
